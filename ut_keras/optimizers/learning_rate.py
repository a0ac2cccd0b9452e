"""T2T's learning rate schedule: a product of named factors.

    "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size"      (transformer_base_v3)
    lr(s) = c * min(1, s / w) * max(s, w)^-0.5 * D^-0.5          (Vaswani et al. 2017, eq. 3)

`s` is the number of finished updates. The first update therefore has s = 0, for which
`linear_warmup` is 0. Only the legacy scheme "noam" uses s + 1.

References: tensor2tensor/utils/learning_rate.py.
"""

import math
from typing import Any

import keras
import tensorflow as tf

from ut_keras.hparam_schema import BasicHParams
from ut_keras.hparam_schema.basic import (
    NEEDS_TRAIN_STEPS,
    check_train_steps,
    learning_rate_factors,
)
from ut_keras.registry import UnknownNameError, unknown_name_message

# The hparam fields that the factors read, and the values for hparams without these fields.
_FIELDS = {
    "learning_rate": 0.2,
    "learning_rate_schedule": "legacy",
    "learning_rate_constant": 1.0,
    "learning_rate_warmup_steps": 0,
    "learning_rate_decay_scheme": "none",
    "learning_rate_decay_steps": 5000,
    "learning_rate_decay_rate": 1.0,
    "learning_rate_decay_staircase": False,
    "learning_rate_cosine_cycle_steps": 250000,
    "hidden_size": 512,
    "optimizer": "adam",
    "optimizer_multistep_accumulate_steps": 0,
    "recurrence_segments": 1,
}
# Fields in configs that were saved by versions before 0.2.0.
_REMOVED_FIELDS = {"learning_rate_boundaries", "learning_rate_multiples"}


@keras.saving.register_keras_serializable(package="ut_keras")
class HParamsSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """T2T's schedule: the product of the factors in `learning_rate_schedule`.

    Args:
        train_steps: int or None. Number of updates in the run. The factors that end with the run
            (linear_decay, single_cycle_cos_decay) require it.
        **fields: the hparams that a factor may read, under T2T's names. See `_FIELDS`. Each of
            them is also an attribute.

    Call arguments:
        step: int tensor, number of finished updates. With `recurrence_segments=M`, the schedule
            divides it by M, so that the schedule counts batches.

    Returns:
        float32 scalar tensor.

    Raises:
        UnknownNameError: if a factor or decay scheme does not exist.
        ValueError: if a factor requires `train_steps` and `train_steps` is None. Also if
            `train_steps` is too small.
    """

    def __init__(self, train_steps: int | None = None, **fields: Any) -> None:
        super().__init__()
        unknown = fields.keys() - _FIELDS.keys() - _REMOVED_FIELDS
        if unknown:
            raise ValueError(
                f"fields must be among {', '.join(_FIELDS)}. Received: {sorted(unknown)}."
            )
        self.train_steps = train_steps
        self.fields = {**_FIELDS, **fields}
        for name, value in self.fields.items():  # so that a factor can read `schedule.hidden_size`
            setattr(self, name, value)
        self.factor_names = learning_rate_factors(self.learning_rate_schedule)
        for name in self.factor_names:
            if name not in _FACTORS:
                raise UnknownNameError(unknown_name_message("learning rate factor", name, _FACTORS))
        scheme = self.learning_rate_decay_scheme or "none"
        if scheme not in _DECAY_SCHEMES:
            kind = "learning_rate_decay_scheme"
            raise UnknownNameError(unknown_name_message(kind, scheme, _DECAY_SCHEMES))
        self._check_train_steps()

    def __call__(self, step: Any) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        if self.optimizer_multistep_accumulate_steps:
            step = step / self.optimizer_multistep_accumulate_steps
        if self.recurrence_segments > 1:  # each batch has an update for each segment
            step = step / self.recurrence_segments
        rate = tf.constant(1.0)
        for name in self.factor_names:
            rate = rate * _FACTORS[name](self, step)
        return rate

    def _check_train_steps(self):
        needing = set(NEEDS_TRAIN_STEPS) & set(self.factor_names)
        if needing and self.train_steps is None:
            raise ValueError(
                f"train_steps must be set for {', '.join(sorted(needing))}: "
                "from ut_keras import optimizers; model.compile(optimizer=optimizers.get("
                "model.hparams, train_steps=10000)). Received: None."
            )
        if self.train_steps is not None:
            check_train_steps(self, self.train_steps)

    def get_config(self) -> dict[str, Any]:
        return {"train_steps": self.train_steps, **self.fields}


def from_hparams(hp: BasicHParams, train_steps: int | None = None) -> HParamsSchedule:
    """Return the `HParamsSchedule` of `hp` for a run of `train_steps` updates."""
    fields = {name: getattr(hp, name) for name in _FIELDS if hasattr(hp, name)}
    return HParamsSchedule(train_steps=train_steps, **fields)


def endless(hp: BasicHParams) -> HParamsSchedule:
    """Return the schedule without the factors that end with the run.

    The result can be used for runs of unknown length.
    """
    factors = hp.learning_rate_schedule.split("*")
    kept = "*".join(name for name in factors if name.strip() not in NEEDS_TRAIN_STEPS)
    return from_hparams(hp.override({"learning_rate_schedule": kept}))


def _warmup(schedule):
    return float(schedule.learning_rate_warmup_steps)


def _cosdecay(schedule, step):
    # As in T2T, the cosine starts at step 0. At the end of the warm-up, the rate therefore drops
    # from 1 to a smaller value.
    decay = 0.5 * (1.0 + tf.cos(math.pi * step / schedule.learning_rate_decay_steps))
    return tf.where(step <= schedule.learning_rate_warmup_steps, 1.0, decay)


def _cosine_after_warmup(schedule, step, length):
    after = tf.maximum(step, _warmup(schedule)) - _warmup(schedule)
    return tf.cos(after * math.pi / length) / 2.0 + 0.5


def _exponential(schedule, step, least):
    periods = (step - schedule.learning_rate_warmup_steps) / schedule.learning_rate_decay_steps
    periods = tf.maximum(periods, least)
    if schedule.learning_rate_decay_staircase:
        periods = tf.floor(periods)
    return tf.pow(float(schedule.learning_rate_decay_rate), periods)


def _legacy(schedule, step):
    """Return the rate of the "v1" and "v2" sets: warm-up, then a decay scheme."""
    # T2T searches for the lower-case substring "adam", so the optimizer "Adam" gets no correction.
    correction = 0.002 if "adam" in schedule.optimizer else 1.0
    scheme = schedule.learning_rate_decay_scheme or "none"
    warmup_steps = schedule.learning_rate_warmup_steps
    rate = _DECAY_SCHEMES[scheme](schedule, step)
    if scheme != "noam" and warmup_steps:
        warmup = tf.exp(math.log(0.01) / warmup_steps * (warmup_steps - step))
        rate = tf.where(step < warmup_steps, warmup, rate)
    return rate * correction * schedule.learning_rate


def _noam(schedule, step):
    rate = tf.math.rsqrt(step + 1.0)
    if schedule.learning_rate_warmup_steps:
        rate = tf.minimum((step + 1.0) * _warmup(schedule) ** -1.5, rate)
    return 5000.0 * schedule.hidden_size**-0.5 * rate


def _cosine(schedule, step):
    cycle = float(schedule.learning_rate_cosine_cycle_steps)
    position = cycle - tf.abs(cycle - tf.math.floormod(step, 2.0 * cycle))
    return 0.5 * (1.0 + tf.cos(math.pi * position / cycle))


def _cyclelinear10x(schedule, step):
    # In a period of two warm-up lengths, the rate rises from 0.3 to 3.3 and falls back to 0.3.
    cycle = _warmup(schedule)
    position = (tf.math.floormod(step, 2.0 * cycle) - cycle) / cycle
    return (1.0 - tf.abs(position) + 0.1) * 3.0


# The factors: functions (schedule h, step s) -> float32 scalar. The attributes of the schedule are
# the hparams.
_FACTORS = {
    "constant": lambda h, s: tf.constant(h.learning_rate_constant, tf.float32),
    "linear_warmup": lambda h, s: tf.minimum(1.0, tf.math.divide(s, _warmup(h))),
    "linear_decay": lambda h, s: tf.clip_by_value(
        (h.train_steps - s) / h.learning_rate_decay_steps, 0.0, 1.0
    ),
    "cosdecay": _cosdecay,
    "single_cycle_cos_decay": lambda h, s: _cosine_after_warmup(
        h, s, h.train_steps - h.learning_rate_warmup_steps
    ),
    "multi_cycle_cos_decay": lambda h, s: _cosine_after_warmup(h, s, h.learning_rate_decay_steps),
    "rsqrt_decay": lambda h, s: tf.math.rsqrt(tf.maximum(s, _warmup(h))),
    "rsqrt_normalized_decay": lambda h, s: (
        math.sqrt(_warmup(h)) * tf.math.rsqrt(tf.maximum(s, _warmup(h)))
    ),
    "exp_decay": lambda h, s: _exponential(h, s, least=0.0),
    "rsqrt_hidden_size": lambda h, s: tf.constant(h.hidden_size**-0.5, tf.float32),
    "legacy": _legacy,
}
# The decay schemes of the factor "legacy". These functions have the same arguments as the factors.
_DECAY_SCHEMES = {
    "none": lambda h, s: tf.constant(1.0),
    "noam": _noam,
    "exp": lambda h, s: _exponential(h, s, least=-math.inf),
    "sqrt": lambda h, s: 500.0 * tf.math.rsqrt(tf.maximum(s - h.learning_rate_warmup_steps, 1.0)),
    "cosine": _cosine,
    "cyclelinear10x": _cyclelinear10x,
}
