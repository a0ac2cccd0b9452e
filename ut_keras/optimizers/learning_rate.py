"""The learning rate as T2T's hparams spell it: a product of named factors.

    "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size"      (transformer_base_v3)
    lr(s) = c * min(1, s / w) * max(s, w)^-0.5 * D^-0.5          (Vaswani et al. 2017, eq. 3)

`s` counts finished updates, so the first update sees s = 0 (and `linear_warmup` a rate of 0); only
the legacy "noam" scheme uses s + 1. One function below is one factor; to add one, register it.

References: tensor2tensor/utils/learning_rate.py.
"""

import math
from typing import Any

import keras
import tensorflow as tf

from ut_keras import registry
from ut_keras.hparam import BasicHParams, HParamError

FACTORS = registry.Registry("learning rate factor")
DECAY_SCHEMES = registry.Registry("learning_rate_decay_scheme")

# Field and what holds when the hparams lack it.
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
    "learning_rate_boundaries": [],
    "learning_rate_multiples": [],
    "hidden_size": 512,
    "optimizer": "adam",
    "optimizer_multistep_accumulate_steps": 0,
}


@keras.saving.register_keras_serializable(package="ut_keras")
class HParamsSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """T2T's schedule: the product of the factors in `learning_rate_schedule`.

    Args:
        train_steps: int or None. Length of the run, for the factors that end with it
            (linear_decay, single_cycle_cos_decay).
        **fields: the hparams that a factor may read, by T2T's names; see `_FIELDS`.

    Call arguments:
        step: int tensor, finished updates.

    Returns:
        float32 scalar tensor.

    Raises:
        UnknownNameError: if a factor or decay scheme does not exist.
        ValueError: if a factor needs `train_steps` and there is none, or it is too small.
    """

    def __init__(self, train_steps: int | None = None, **fields: Any) -> None:
        super().__init__()
        unknown = sorted(set(fields) - set(_FIELDS))
        if unknown:
            raise ValueError(f"fields must be among {', '.join(_FIELDS)}. Received: {unknown}.")
        self.train_steps = train_steps
        self.fields = {**_FIELDS, **fields}
        for name, value in self.fields.items():
            setattr(self, name, value)
        schedule = self.learning_rate_schedule
        self.factor_names = [name.strip() for name in schedule.split("*") if name.strip()]
        for name in self.factor_names:
            FACTORS.get(name)
        if "legacy" in self.factor_names:
            DECAY_SCHEMES.get(self.learning_rate_decay_scheme or "none")
        self._check_train_steps()

    def __call__(self, step: Any) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        if self.optimizer_multistep_accumulate_steps:
            step = step / self.optimizer_multistep_accumulate_steps
        rate = tf.constant(1.0)
        for name in self.factor_names:
            rate = rate * FACTORS.get(name)(self, step)
        return rate

    def _check_train_steps(self):
        needing = {"linear_decay", "single_cycle_cos_decay"} & set(self.factor_names)
        if needing and self.train_steps is None:
            raise ValueError(
                f"train_steps must be given for {', '.join(sorted(needing))}: "
                "model.compile(optimizer=optimizers.get(model.hparams, train_steps=10000)), "
                "optimizers from ut_keras. Received: None."
            )
        if "single_cycle_cos_decay" in needing and (
            self.train_steps <= self.learning_rate_warmup_steps
        ):
            raise HParamError(
                "single_cycle_cos_decay needs train_steps > learning_rate_warmup_steps. Received: "
                f"train_steps={self.train_steps}, "
                f"learning_rate_warmup_steps={self.learning_rate_warmup_steps}."
            )

    def get_config(self) -> dict[str, Any]:
        return {"train_steps": self.train_steps, **self.fields}


def from_hparams(hp: BasicHParams, train_steps: int | None = None) -> HParamsSchedule:
    """Returns the `HParamsSchedule` of `hp`, for a run of `train_steps` updates."""
    fields = {name: getattr(hp, name) for name in _FIELDS if hasattr(hp, name)}
    return HParamsSchedule(train_steps=train_steps, **fields)


def _rsqrt(x):
    return tf.math.rsqrt(tf.cast(x, tf.float32))


# Factors: (schedule, step) -> float32 scalar.


@FACTORS.register("constant")
def constant(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    return tf.constant(schedule.learning_rate_constant, tf.float32)


@FACTORS.register("linear_warmup")
def linear_warmup(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    return tf.minimum(1.0, tf.math.divide(step, float(schedule.learning_rate_warmup_steps)))


@FACTORS.register("linear_decay")
def linear_decay(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    left = (schedule.train_steps - step) / schedule.learning_rate_decay_steps
    return tf.clip_by_value(left, 0.0, 1.0)


@FACTORS.register("cosdecay")
def cosdecay(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    # Counts from step 0, so that it does not start at 1 when the warm-up ends.
    decay = 0.5 * (1.0 + tf.cos(math.pi * step / schedule.learning_rate_decay_steps))
    return tf.where(step <= schedule.learning_rate_warmup_steps, 1.0, decay)


@FACTORS.register("single_cycle_cos_decay")
def single_cycle_cos_decay(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    length = schedule.train_steps - schedule.learning_rate_warmup_steps
    return _cosine_after_warmup(schedule, step, length)


@FACTORS.register("multi_cycle_cos_decay")
def multi_cycle_cos_decay(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    return _cosine_after_warmup(schedule, step, schedule.learning_rate_decay_steps)


def _cosine_after_warmup(schedule, step, length):
    warmup = float(schedule.learning_rate_warmup_steps)
    after = tf.maximum(step, warmup) - warmup
    return tf.cos(after * math.pi / length) / 2.0 + 0.5


@FACTORS.register("rsqrt_decay")
def rsqrt_decay(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    return _rsqrt(tf.maximum(step, float(schedule.learning_rate_warmup_steps)))


@FACTORS.register("rsqrt_normalized_decay")
def rsqrt_normalized_decay(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    warmup = float(schedule.learning_rate_warmup_steps)
    return math.sqrt(warmup) * _rsqrt(tf.maximum(step, warmup))


@FACTORS.register("exp_decay")
def exp_decay(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    periods = (step - schedule.learning_rate_warmup_steps) / schedule.learning_rate_decay_steps
    periods = tf.maximum(periods, 0.0)
    if schedule.learning_rate_decay_staircase:
        periods = tf.floor(periods)
    return tf.pow(float(schedule.learning_rate_decay_rate), periods)


@FACTORS.register("rsqrt_hidden_size")
def rsqrt_hidden_size(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    return tf.constant(schedule.hidden_size**-0.5, tf.float32)


@FACTORS.register("legacy")
def legacy(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    """The rates of the "v1" and "v2" sets: one decay scheme after an exponential warm-up."""
    # T2T asks for the substring, in lower case: "Adafactor" gets no correction.
    correction = 0.002 if "adam" in schedule.optimizer else 1.0
    scheme = schedule.learning_rate_decay_scheme or "none"
    warmup_steps = schedule.learning_rate_warmup_steps
    rate = DECAY_SCHEMES.get(scheme)(schedule, step)
    if scheme != "noam" and warmup_steps:
        warmup = tf.exp(math.log(0.01) / warmup_steps * (warmup_steps - step))
        rate = tf.where(step < warmup_steps, warmup, rate)
    return rate * correction * schedule.learning_rate


# Decay schemes of the legacy factor: (schedule, step) -> float32 scalar.


@DECAY_SCHEMES.register("none")
def no_decay(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    return tf.constant(1.0)


@DECAY_SCHEMES.register("noam")
def noam(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    warmup = float(schedule.learning_rate_warmup_steps)
    rising = (step + 1.0) * warmup**-1.5
    return 5000.0 * schedule.hidden_size**-0.5 * tf.minimum(rising, _rsqrt(step + 1.0))


@DECAY_SCHEMES.register("exp")
def exp(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    periods = (step - schedule.learning_rate_warmup_steps) / schedule.learning_rate_decay_steps
    if schedule.learning_rate_decay_staircase:
        periods = tf.floor(periods)
    return tf.pow(float(schedule.learning_rate_decay_rate), periods)


@DECAY_SCHEMES.register("sqrt")
def sqrt(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    after_warmup = step - schedule.learning_rate_warmup_steps
    return 500.0 * _rsqrt(tf.maximum(after_warmup, 1.0))


@DECAY_SCHEMES.register("cosine")
def cosine(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    cycle = float(schedule.learning_rate_cosine_cycle_steps)
    position = cycle - tf.abs(cycle - tf.math.floormod(step, 2.0 * cycle))
    return 0.5 * (1.0 + tf.cos(math.pi * position / cycle))


@DECAY_SCHEMES.register("cyclelinear10x")
def cyclelinear10x(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    # From 0.3 up to 3.3 and back, once every two warm-up lengths.
    cycle = float(schedule.learning_rate_warmup_steps)
    position = (tf.math.floormod(step, 2.0 * cycle) - cycle) / cycle
    return (1.0 - tf.abs(position) + 0.1) * 3.0


@DECAY_SCHEMES.register("piecewise")
def piecewise(schedule: HParamsSchedule, step: tf.Tensor) -> tf.Tensor:
    """Multiples that hold between boundaries; they do not accumulate."""
    boundaries = [float(boundary) for boundary in schedule.learning_rate_boundaries]
    multiples = [1.0] + [float(multiple) for multiple in schedule.learning_rate_multiples]
    if len(multiples) != len(boundaries) + 1:
        raise ValueError(
            "learning_rate_multiples must be as many as learning_rate_boundaries. "
            f"Received: {len(multiples) - 1} and {len(boundaries)}."
        )
    # A boundary belongs to the interval before it.
    index = tf.reduce_sum(tf.cast(step > tf.constant(boundaries, tf.float32), tf.int32))
    return tf.gather(tf.constant(multiples, tf.float32), index)
