"""The hyperparameters of every model (data, optimizer, ...) and their methods.

The names are the names of T2T's `basic_params1`. The defaults are the defaults of T2T's
`transformer_base`. The comment "Added" marks a field that T2T does not have.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from ut_keras.hparam_schema import ignored_fields, limits, older_versions
from ut_keras.hparam_schema import overrides as overrides_lib
from ut_keras.hparam_schema.field import (
    NON_NEGATIVE,
    POSITIVE,
    RATE,
    STEPS,
    Check,
    HParamError,
    field,
    specs,
    training,
)
from ut_keras.hparam_schema.removed_fields import unknown_hparam_message

LEARNING_RATE_FACTORS = (
    "constant",
    "linear_warmup",
    "linear_decay",
    "rsqrt_decay",
    "rsqrt_hidden_size",
    "rsqrt_normalized_decay",
    "exp_decay",
    "cosdecay",
    "single_cycle_cos_decay",
    "multi_cycle_cos_decay",
    "legacy",
)
# Conditions under which a field is read (see `Facts.read_if`).
_OF_SCHEDULE = "learning_rate_schedule"
_LEGACY = ((_OF_SCHEDULE, ("legacy",)),)
_CONSTANT = ((_OF_SCHEDULE, ("constant",)),)
_DECAY_RATE = ((_OF_SCHEDULE, ("exp_decay", "legacy")),)
_DECAY_STEPS = (
    (_OF_SCHEDULE, ("linear_decay", "cosdecay", "multi_cycle_cos_decay", "exp_decay", "legacy")),
)
_NO_WARMUP = ("constant", "linear_decay", "rsqrt_hidden_size")
_WARMS_UP = tuple(name for name in LEARNING_RATE_FACTORS if name not in _NO_WARMUP)
_WARMUP = ((_OF_SCHEDULE, _WARMS_UP),)
_ADAMS = (
    *("adam", "true_adam", "multistep_adam", "adam_w"),
    *("Adam", "TrueAdam", "MultistepAdam", "AdamW"),
)
_ADAM = (("optimizer", _ADAMS),)
_ADAFACTOR = (("optimizer", ("adafactor", "Adafactor")),)
_POWER_DECAY = (*_ADAFACTOR, ("optimizer_adafactor_decay_type", ("pow",)))
_ADAM_DECAY = (*_ADAFACTOR, ("optimizer_adafactor_decay_type", ("adam",)))
_MOMENTUM = (("optimizer", ("momentum", "Momentum")),)
_BUCKETS = (("use_fixed_batch_size", (False,)),)
_CURRICULUM = (("curriculum_start_length", range(1, 2**31)),)
_OWN_SOFTMAX = (("shared_embedding_and_softmax_weights", (False,)),)
_GAIN = (("initializer", ("uniform_unit_scaling", "normal_unit_scaling", "uniform", "orthogonal")),)
_RELATIVE_V2 = (("self_attention_type", ("dot_product_relative_v2",)),)
_CLIPPED = (("self_attention_type", ("dot_product_relative", "dot_product_relative_v2")),)
# Factors of a schedule that end with the run.
NEEDS_TRAIN_STEPS = ("linear_decay", "single_cycle_cos_decay")
# Factors of a schedule that divide by the number of warm-up steps.
_DIVIDES_BY_WARMUP = ("linear_warmup", "rsqrt_decay", "rsqrt_normalized_decay", "cyclelinear10x")


def learning_rate_factors(schedule: str) -> list[str]:
    """Split a schedule such as "constant * rsqrt_decay" into its factors."""
    return [factor.strip() for factor in schedule.split("*") if factor.strip()]


def check_train_steps(hp: Any, train_steps: int) -> None:
    """Raise `HParamError` if a run with cosine decay would end before its warm-up."""
    warmup = hp.learning_rate_warmup_steps
    names = learning_rate_factors(hp.learning_rate_schedule)
    if "single_cycle_cos_decay" in names and train_steps <= warmup:
        raise HParamError(
            "train_steps must exceed learning_rate_warmup_steps for single_cycle_cos_decay. "
            f"Received: train_steps={train_steps}, learning_rate_warmup_steps={warmup}. Use more "
            f"steps, or the hparam learning_rate_warmup_steps={max(1, train_steps // 10)}."
        )


def train_steps_note(hp: Any, train_steps: int) -> str:
    """Return a note if the learning rate does not reach its schedule's end, or ""."""
    accumulated = hp.optimizer_multistep_accumulate_steps
    names = [n for n in learning_rate_factors(hp.learning_rate_schedule) if n in NEEDS_TRAIN_STEPS]
    if accumulated < 2 or not names:
        return ""
    return (
        f"{' and '.join(names)} would end after {train_steps} updates. With "
        f"optimizer_multistep_accumulate_steps={accumulated}, the run has "
        f"{train_steps // accumulated} updates. So the learning rate does not reach its last "
        "value, as in T2T"
    )


def warmup_note(hp: Any, train_steps: int) -> str:
    """Return a note if a run ends before the end of its warm-up, or "".

    If the warm-up is much longer than the run, the learning rate stays almost 0, and the
    model hardly learns.
    """
    warmup = hp.learning_rate_warmup_steps
    factors = learning_rate_factors(hp.learning_rate_schedule)
    rises = "linear_warmup" in factors or (
        "legacy" in factors and hp.learning_rate_decay_scheme != "cyclelinear10x"
    )
    steps = train_steps / (hp.optimizer_multistep_accumulate_steps or 1)
    if not rises or not 0 < steps < warmup:
        return ""
    return (
        f"the run ends after {steps:,.0f} of the {warmup:,} updates of the warm-up, so the "
        "learning rate stays low. Train for more steps, or set the hparam "
        f"learning_rate_warmup_steps={max(1, int(steps) // 10)}."
    )


def _subclasses(cls):
    """Return the subclasses of `cls` that have no fields of a T2T package."""
    found = [each for each in cls.__subclasses__() if not each.ADDED]
    return found + [deeper for each in found for deeper in _subclasses(each)]


def _has_one_of(chosen, values):
    """Return whether a field has one of the values, or is a product with one of them."""
    if chosen in values:
        return True
    is_text = isinstance(chosen, str)
    return is_text and not set(learning_rate_factors(chosen)).isdisjoint(values)


def _is_integers(text):
    return all(re.fullmatch(r"-?[0-9]+", part.strip()) for part in text.split(",") if part)


def _is_sequence(text, letters):
    return set(text) <= set(letters) and len(text) <= limits.MOST_STEPS


SCHEDULE = Check(
    f"factors joined by '*', from {', '.join(LEARNING_RATE_FACTORS)}",
    lambda text: set(learning_rate_factors(text)) <= set(LEARNING_RATE_FACTORS),
)
DIMENSIONS = Check("dimension numbers joined by commas, such as '0,1' or ''", _is_integers)
PREPROCESS = Check(
    "'none' or letters from n (norm) and d (dropout)",
    lambda text: text == "none" or _is_sequence(text, "nd"),
)
POSTPROCESS = Check(
    "'none' or letters from n (norm), d (dropout) and a (add the layer's input)",
    lambda text: text == "none" or _is_sequence(text, "nda"),
)

# The names of optimizers. As in T2T, the names may also be written in CamelCase.
OPTIMIZERS = (
    *("adam", "true_adam", "multistep_adam", "adafactor", "momentum", "sgd", "adagrad", "rms_prop"),
    *("Adam", "TrueAdam", "MultistepAdam", "Adafactor", "Momentum", "SGD", "Adagrad", "RMSProp"),
    *("adam_w", "AdamW"),
)
_SHOWN = 3  # maximum number of field names in a note
_OTHER_OPTIMIZERS = ("ftrl", "yellow_fin", "Ftrl", "YellowFin")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BasicHParams(ignored_fields.BasicIgnoredFields):
    """Hyperparameters of every model, frozen.

    `override` and `dataclasses.replace` return a changed copy.

    Raises:
        HParamError: if a value has the wrong type or is out of range.
    """

    ADDED: ClassVar[tuple[str, ...]] = ()  # fields that an hparams set of a T2T package adds

    # --- Input pipeline -------------------------------------------------------------------------
    batch_size: int = training(4096, POSITIVE)  # number of tokens per replica
    # Training skips longer examples. 0 means that batch_size is the limit.
    max_length: int = training(256, NON_NEGATIVE)
    min_length: int = training(0, NON_NEGATIVE)
    # The maximum length in the first bucket, and the factor between the maximum lengths of
    # successive buckets.
    min_length_bucket: int = training(8, POSITIVE, read_if=_BUCKETS)
    length_bucket_step: float = training(1.1, "[1.001, inf)", read_if=_BUCKETS)
    batch_shuffle_size: int = training(512, NON_NEGATIVE)
    eval_drop_long_sequences: bool = training(False)
    max_input_seq_length: int = training(0)  # longer inputs are truncated; 0 or less means no limit
    max_target_seq_length: int = training(0)
    # Whether batch_size is a number of examples instead of tokens.
    use_fixed_batch_size: bool = training(False)
    # Added: a curriculum of lengths in ut-trainer. Training starts with examples up to this length.
    # The limit increases when the model predicts enough sequences of the newest lengths correctly.
    # 0 means no curriculum.
    curriculum_start_length: int = training(0, NON_NEGATIVE)
    # The minimum increase of the limit.
    curriculum_length_step: int = training(1, POSITIVE, read_if=_CURRICULUM)
    # The limit increases if at least this fraction of the sequences is correct.
    curriculum_accuracy: float = training(0.95, "(0, 1]", read_if=_CURRICULUM)
    # Number of updates over which the accuracy is measured.
    curriculum_updates: int = training(100, POSITIVE, read_if=_CURRICULUM)

    # --- Size -----------------------------------------------------------------------------------
    hidden_size: int = field(512, POSITIVE, architecture=True)
    num_hidden_layers: int = field(6, STEPS, architecture=True)

    # --- Embedding and softmax ------------------------------------------------------------------
    multiply_embedding_mode: Literal["sqrt_depth", "none"] = field("sqrt_depth", architecture=True)
    shared_embedding: bool = field(False, architecture=True, read_if=_OWN_SOFTMAX)
    shared_embedding_and_softmax_weights: bool = field(True, architecture=True)
    symbol_modality_num_shards: int = training(
        16, POSITIVE
    )  # number of shards of an embedding table in Adafactor
    label_smoothing: float = training(0.1, RATE)
    # Added: initial standard deviation of the word masks of bAbI sentences. The initial mean of the
    # masks is 1. In the code of the paper's authors, all masks are initially 1.
    sentence_mask_stddev: float = training(0.0, NON_NEGATIVE)
    # Added: whether to remove the padding sentences of bAbI stories. In T2T, padding sentences
    # stand between the story and the question.
    trim_stories: bool = field(False, architecture=True)

    # --- Before and after each layer ------------------------------------------------------------
    layer_preprocess_sequence: str = field("n", check=PREPROCESS, architecture=True)
    layer_postprocess_sequence: str = field("da", check=POSTPROCESS, architecture=True)
    layer_prepostprocess_dropout: float = training(0.1, RATE)
    layer_prepostprocess_dropout_broadcast_dims: str = training(
        "", check=DIMENSIONS, comma_separated=True
    )
    # "rms" is not a value of T2T.
    norm_type: Literal["layer", "rms", "batch", "noam", "group", "l2", "none"] = field(
        "layer", architecture=True, supported=("rms",)
    )
    norm_epsilon: float = field(1e-6, "(0, inf)")

    # --- Initial weights ------------------------------------------------------------------------
    initializer: Literal[
        "uniform_unit_scaling", "normal_unit_scaling", "uniform", "orthogonal", "xavier"
    ] = training("uniform_unit_scaling")
    initializer_gain: float = training(1.0, "(0, inf)", read_if=_GAIN)

    # --- Optimizer ------------------------------------------------------------------------------
    optimizer: Literal[OPTIMIZERS + _OTHER_OPTIMIZERS] = training(  # type: ignore[valid-type]
        "adam", supported=OPTIMIZERS
    )
    optimizer_adam_beta1: float = training(0.9, RATE, read_if=_ADAM)
    optimizer_adam_beta2: float = training(0.997, RATE, read_if=_ADAM)
    optimizer_adam_epsilon: float = training(1e-9, NON_NEGATIVE, read_if=_ADAM)
    optimizer_momentum_momentum: float = training(0.9, RATE, read_if=_MOMENTUM)
    optimizer_momentum_nesterov: bool = training(False, read_if=_MOMENTUM)
    optimizer_adafactor_beta1: float = training(0.0, RATE, read_if=_ADAFACTOR)
    optimizer_adafactor_beta2: float = training(0.999, "(0, 1)", read_if=_ADAM_DECAY)
    optimizer_adafactor_clipping_threshold: float | None = training(
        1.0, "(0, inf)", read_if=_ADAFACTOR
    )
    optimizer_adafactor_decay_type: Literal["pow", "adam"] = training("pow", read_if=_ADAFACTOR)
    optimizer_adafactor_factored: bool = training(True, read_if=_ADAFACTOR)
    optimizer_adafactor_memory_exponent: float = training(0.8, NON_NEGATIVE, read_if=_POWER_DECAY)
    optimizer_adafactor_multiply_by_parameter_scale: bool = training(True, read_if=_ADAFACTOR)
    # Number of batches in each update of multistep_adam.
    optimizer_multistep_accumulate_steps: int = training(0, NON_NEGATIVE)
    optimizer_zero_grads: bool = training(False)
    clip_grad_norm: float = training(
        0.0, NON_NEGATIVE
    )  # maximum global norm of all gradients; 0 means no clipping
    grad_noise_scale: float = training(0.0, NON_NEGATIVE)
    weight_decay: float = training(0.0, NON_NEGATIVE)

    # --- Learning rate --------------------------------------------------------------------------
    learning_rate_schedule: str = training(
        "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size",
        check=SCHEDULE,
        removed=older_versions.REMOVED_SCHEDULES,
    )
    learning_rate_constant: float = training(2.0, NON_NEGATIVE, read_if=_CONSTANT)
    learning_rate_warmup_steps: int = training(8000, NON_NEGATIVE, read_if=_WARMUP)
    learning_rate_decay_steps: int = training(5000, POSITIVE, read_if=_DECAY_STEPS)
    learning_rate_decay_rate: float = training(1.0, NON_NEGATIVE, read_if=_DECAY_RATE)
    learning_rate_decay_staircase: bool = training(False, read_if=_DECAY_RATE)
    # Only the schedule "legacy" reads the next three fields. The scheme "piecewise" is not
    # supported, because T2T has no field for the boundaries of this scheme.
    learning_rate: float = training(0.2, NON_NEGATIVE, read_if=_LEGACY)
    learning_rate_decay_scheme: Literal[
        "noam", "none", "exp", "cosine", "cyclelinear10x", "sqrt", "piecewise"
    ] = training(
        "noam",
        supported=("noam", "none", "exp", "cosine", "cyclelinear10x", "sqrt"),
        removed=older_versions.REMOVED_SCHEMES,
        read_if=_LEGACY,
    )
    learning_rate_cosine_cycle_steps: int = training(250000, POSITIVE, read_if=_LEGACY)

    # --- Precision and devices ------------------------------------------------------------------
    activation_dtype: Literal["float32", "bfloat16", "float16"] = field(
        "float32", supported=("float32", "bfloat16")
    )

    # --- Relative attention ---------------------------------------------------------------------
    max_relative_position: int = field(0, NON_NEGATIVE, architecture=True, read_if=_CLIPPED)
    heads_share_relative_embedding: bool = field(False, architecture=True, read_if=_RELATIVE_V2)
    add_relative_to_values: bool = field(False, architecture=True, read_if=_RELATIVE_V2)
    # Added: whether dot_product_relative_v2 masks later positions.
    relative_mask_future: bool = field(False, read_if=_RELATIVE_V2)

    def __post_init__(self) -> None:
        for name, spec in specs(type(self)).items():
            object.__setattr__(self, name, spec.checked(getattr(self, name)))
        factors = {*learning_rate_factors(self.learning_rate_schedule)}
        if "legacy" in factors:
            factors.add(self.learning_rate_decay_scheme)
        if self.learning_rate_warmup_steps == 0 and factors & set(_DIVIDES_BY_WARMUP):
            raise HParamError(
                "learning_rate_warmup_steps must be at least 1 if the schedule contains "
                f"{' or '.join(_DIVIDES_BY_WARMUP)}. Received: learning_rate_warmup_steps=0, "
                f"learning_rate_schedule={self.learning_rate_schedule!r}."
            )

    def override(self, overrides: str | Mapping[str, Any]) -> Self:
        """Return a copy with some values replaced.

        Args:
            overrides: str such as "hidden_size=64,pos=None", or dict from name to value. The module
                `overrides` describes the grammar of the str.

        Raises:
            HParamError: if a name is unknown, or a value has the wrong type or is out of range.

        >>> TransformerHParams().override("hidden_size=64,num_heads=4").hidden_size
        64
        """
        if isinstance(overrides, str):
            overrides = overrides_lib.parse(overrides)
        if not isinstance(overrides, Mapping):
            raise HParamError(
                'overrides must be a string, such as "hidden_size=64,pos=None", or a dict from '
                f"name to value. Received: {overrides!r}."
            )
        known = specs(type(self))
        for name in overrides:
            if name not in known:
                others = [cls.__name__ for cls in _subclasses(BasicHParams) if name in specs(cls)]
                kind = type(self).__name__
                raise HParamError(unknown_hparam_message(name, known, kind, others))
        return dataclasses.replace(self, **overrides)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict from name to value, in the order of the fields.

        Fields that an hparams set of a T2T package adds are in the nested dict "added".
        """
        values = {name: getattr(self, name) for name in specs(type(self))}
        added = {name: values.pop(name) for name in self.ADDED}
        return values | ({"added": added} if added else {})

    def check_supported(self, training: bool = True) -> None:
        """Raise `HParamError` if fields have values that are not implemented.

        The message names all of these fields.

        Args:
            training: bool. Whether to also check the fields that only training reads. For
                inference, the value False allows a model that was trained elsewhere.
        """
        refused = [
            f"{name}={getattr(self, name)!r} "
            f"(supported: {', '.join(map(repr, spec.supported_values))}"
            f"{spec.facts.instead and f', or use {spec.facts.instead}'})"
            for name, spec in specs(type(self)).items()
            if not spec.is_supported(getattr(self, name)) and (training or not spec.facts.training)
        ]
        if refused:
            raise HParamError(f"Unsupported values of hparams: {'; '.join(refused)}.")

    def ignored_notes(self, before: Any) -> list[str]:
        """Return a note for each changed field that has no effect.

        Args:
            before: hparams with the values before the change.
        """
        return [
            f"{name}={value!r} has no effect: {why}."
            for name, value in vars(self).items()
            if value != getattr(before, name) and (why := self.ignored_reason(name))
        ]

    def ignored_reason(self, name: str) -> str:
        """Return the reason why a field has no effect, or "" if the field has an effect.

        The reason does not depend on the value of the field.
        """
        known = specs(type(self))
        facts = known[name].facts
        if facts.ignored:
            return facts.ignored
        for decider, values in facts.read_if:
            if decider not in known:
                continue
            chosen = getattr(self, decider)
            choices = known[decider].choices
            if choices and chosen is not None and chosen not in choices:
                return ""  # a part that the user registered may read any field
            if not _has_one_of(chosen, values):
                reads = [
                    other
                    for other, spec in known.items()
                    if any(
                        _has_one_of(chosen, wanted)
                        for by, wanted in spec.facts.read_if
                        if by == decider
                    )
                ]
                shown = [*reads[:_SHOWN], *("…" for _ in reads[_SHOWN : _SHOWN + 1])]
                reads_instead = f" and reads {', '.join(shown)} instead" if shown else ""
                return f"{decider}={chosen!r} ignores it{reads_instead}"
        return ""

    def architecture(self) -> dict[str, Any]:
        """Return the fields that determine the shapes or the use of the weights.

        The return value is a dict from name to value.
        """
        known = specs(type(self))
        return {name: value for name, value in vars(self).items() if known[name].facts.architecture}
