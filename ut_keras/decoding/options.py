"""Defines the options of a search in one table, without importing TensorFlow.

The table defines the arguments of `generate`, the checks of these arguments, the inputs of the
search graph, and the decode hparams. A public function converts its arguments to `Options` once,
with `from_keywords`. Internal functions pass on this object.
"""

import dataclasses
import numbers
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from ut_keras.decoding import batch_seed
from ut_keras.errors import UsageError
from ut_keras.hparam_schema import limits

AUTO = "auto"


class Spec(NamedTuple):
    """The limits of an option, its dtype in a graph, and its decode hparam."""

    least: float | None
    most: float | None
    dtype: str  # dtype of the graph's input for the option; "": each value needs another graph
    hparam: str  # name of the decode hparam; "": the option has none
    hparam_default: Any


def _option(default, least=None, most=None, dtype="", hparam=None, hparam_default=None):
    if hparam_default is None:
        hparam_default = default
    return dataclasses.field(
        default=default, metadata={"spec": Spec(least, most, dtype, hparam, hparam_default)}
    )


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a search.

    Fields:
        beam_size: int. 1 is greedy search.
        alpha: float. Exponent of the length penalty ((5 + length) / 6)^alpha of beam search.
        decode_length: int. Maximum output length beyond the length of the source; for a language
            model, beyond the length of the prompt.
        per_example_length: bool. Whether the length of a source is counted up to its last id.
            False, as in T2T: the padded length of the batch is used for every source.
        min_length: int. Minimum number of tokens before EOS. EOS comes earlier only if the forced
            prefix contains it or if no other token is allowed.
        eos_penalty: float. Subtracted from the log probability of EOS, except where EOS is forced.
            The penalty changes the scores of beam search, but not the scores of greedy search.
        no_repeat_ngram_size: int n. An output contains each sequence of n tokens at most once. 0:
            no limit.
        num_steps: int. Number of steps in depth, see `Transformer.with_steps`. None: the number of
            steps in training.
        exit_threshold: float. A position halts when its halting rule's value exceeds this number.
            A lower number halts sooner, a higher number later. None: 1 - epsilon, as in training.
        temperature: float. If positive, tokens are sampled after the log probabilities are divided
            by the temperature. 0: greedy search or beam search.
        top_k: int. Sample only from the k most likely tokens. 0: sample from all tokens.
        top_p: float in (0, 1]. Sample only from the smallest set of most likely tokens with at
            least this probability (Holtzman et al. 2020).
        seed: int, or a scalar tensor in a traced function. Seed of the sampling. None: each call
            samples differently.
        forced_prefix: int [B, P], 0-padded on the right. Outputs begin with this prefix. It
            overrides the other options, and its tokens are part of the score.
        cache: bool. Whether to cache earlier positions. False: the complete prefix is recomputed
            for every token.
        return_steps: bool. Whether to return the number of steps of each position. This requires
            one more forward pass over the output.
        jit_compile: bool or "auto". Whether XLA compiles the search. "auto": on a GPU, if XLA can
            compile it; see `xla_search`. Inside a `tf.function`, "auto" means False. If XLA
            compiles that function, it always compiles the search too.
    """

    # The decode hparams that T2T also has use T2T's names and defaults.
    beam_size: int = _option(1, 1, hparam="beam_size", hparam_default=4)
    alpha: float = _option(0.6, 0, limits.MOST_ALPHA, "float32", "alpha")
    decode_length: int = _option(50, 0, limits.MOST_POSITIONS, "int32", "extra_length", 100)
    per_example_length: bool = _option(False, hparam="per_example_length", hparam_default=True)
    min_length: int = _option(0, 0, None, "int32", "min_length")
    eos_penalty: float = _option(0.0, None, None, "float32", "eos_penalty")
    no_repeat_ngram_size: int = _option(0, 0, hparam="no_repeat_ngram_size")
    num_steps: int | None = _option(None, 1, limits.MOST_STEPS, "", "num_steps", 0)
    exit_threshold: float | None = _option(None, 0, 1, "", "exit_threshold", 0.0)
    temperature: float = _option(0.0, 0, None, "float32", "sampling_temp")
    top_k: int = _option(0, 0, None, "int32", "top_k")
    top_p: float = _option(1.0, 0, 1, "float32", "top_p")
    seed: int | None = _option(None, 0, limits.LARGEST_SEED, "", "seed", -1)
    forced_prefix: Any = None
    cache: bool = True
    return_steps: bool = False
    jit_compile: bool | str = AUTO

    @property
    def depth(self) -> dict[str, Any]:
        """The options that also apply to a forward pass without a search."""
        return {"num_steps": self.num_steps, "exit_threshold": self.exit_threshold}

    def of_batch(self, number: int) -> "Options":
        """Return the options for one of several batches, which must sample differently.

        Args:
            number: int. The index of the batch. It changes the seed, see `batch_seed`.
        """
        if self.seed is None:
            return self
        return dataclasses.replace(self, seed=batch_seed.of_batch(int(self.seed), number))

    def __post_init__(self) -> None:
        # NumPy scalars are converted to Python numbers, because TensorFlow would keep NumPy dtypes.
        for name in (*SPECS, *_BOOLS):
            value = getattr(self, name)
            if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
                object.__setattr__(self, name, value.item())

    def check(self) -> None:
        """Raise `ValueError` if an option has the wrong type or is out of range."""
        for name in (*SPECS, *_BOOLS):
            if expected := self._expected(name):
                value = getattr(self, name)
                shown = repr(value) if isinstance(value, str) else value
                raise ValueError(f"{name} must be {expected}. Received: {shown}.")
        problem = self.conflict({name: name for name in SPECS})
        if problem:
            raise ValueError(problem)

    def _expected(self, name):
        """Return which values an option may have, or None if its value is valid."""
        value = getattr(self, name)
        if name == "jit_compile" and isinstance(value, str):
            return None if value == AUTO else f"True, False or {AUTO!r}"
        if name in _BOOLS:
            return None if isinstance(value, bool) else "True or False"
        spec, default = SPECS[name], getattr(type(self), name)
        if value is None and default is None or name == "seed" and _is_int_tensor(value):
            return None
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if name in _FLOATS:
            return limits.unmet_limit(value, spec.least, spec.most) if is_number else "a number"
        if not isinstance(value, numbers.Integral) or not is_number:
            return "an int"
        return limits.unmet_limit(int(value), spec.least, spec.most)

    def conflict(self, names: dict[str, str]) -> str | None:
        """Return an error message if valid options contradict each other, or None.

        Args:
            names: dict from the name of each option to its name in the message.
        """
        temperature, beams, top_k, top_p = (
            names[name] for name in ("temperature", "beam_size", "top_k", "top_p")
        )
        if 0 < self.temperature < limits.LEAST_TEMPERATURE:
            return (
                f"{temperature} must be 0 or at least {limits.LEAST_TEMPERATURE}. "
                f"Received: {self.temperature}."
            )
        if not self.top_p:
            return f"{top_p} must be above 0. Received: {self.top_p}."
        if self.temperature and self.beam_size > 1:
            return (
                f"{beams} must be 1 where {temperature} is above 0: sampling gives one result. "
                f"Received: {temperature}={self.temperature}, {beams}={self.beam_size}."
            )
        if not self.temperature and (self.top_k or self.top_p < 1):
            return (
                f"{temperature} must be above 0 where {top_k} or {top_p} restricts sampling. "
                f"Received: {temperature}=0, {top_k}={self.top_k}, {top_p}={self.top_p}."
            )
        return None


SPECS = {
    field.name: field.metadata["spec"] for field in dataclasses.fields(Options) if field.metadata
}


def _names_of_type(kind):
    """Return the options whose annotation contains a type.

    For example, `bool | str` contains `bool`.
    """
    fields = dataclasses.fields(Options)
    return [field.name for field in fields if kind in (field.type, *get_args(field.type))]


_FLOATS, _BOOLS = _names_of_type(float), _names_of_type(bool)
# Dict from each numeric option that is an input of the graph to the dtype of the input.
NUMBERS = {name: spec.dtype for name, spec in SPECS.items() if spec.dtype}


_NAMES = tuple(field.name for field in dataclasses.fields(Options))

# Dict from old to new names. Old names still work for one version.
_RENAMED = {"own_room": "per_example_length"}


def from_keywords(options: Mapping[str, Any], **defaults: Any) -> Options:
    """Return the checked `Options` for the keyword arguments of a public function.

    Args:
        options: dict from the name of an option to its value. Old names are allowed, as in
            `current_names`.
        defaults: default values that replace those of `Options`.

    Raises:
        TypeError: if the name of an option is unknown.
        ValueError: if an option has the wrong type or is out of range.
        UsageError: if an option is given by its old and its new name.
    """
    parsed = Options(**{**defaults, **current_names(options, stacklevel=4)})
    parsed.check()
    return parsed


def current_names(
    options: Mapping[str, Any], are_hparams: bool = False, stacklevel: int = 3
) -> dict[str, Any]:
    """Return options under their new names, with a warning for each old name.

    The warning is a `DeprecationWarning`.

    Args:
        options: dict from name to value.
        are_hparams: bool. Whether the names are decode hparams, which the caller checks.
        stacklevel: int, with the same meaning as in `warnings.warn`. By default, the warning points
            at the caller of the function that calls `current_names`.

    Raises:
        TypeError: if the name of an option is unknown.
        UsageError: if an option is given by its old and its new name.
    """
    current = {}
    for name, value in options.items():
        if new := _RENAMED.get(name):
            if new in options:
                raise UsageError(
                    f"{new} must be given once. Received: {new}={options[new]}, {name}={value}."
                )
            warnings.warn(
                f"{name} has been renamed to {new}. The old name will be removed in the next "
                "version.",
                DeprecationWarning,
                stacklevel=stacklevel,
            )
        if not are_hparams and (new or name) not in _NAMES:
            raise TypeError(
                f"An option of a search must be one of {', '.join(_NAMES)}. "
                f"Received: {name}={value!r}.{_hint(name)}"
            )
        current[new or name] = value
    return current


def _hint(name):
    """Return a hint that names our option for an unknown name, or ""."""
    names = {spec.hparam: option for option, spec in SPECS.items()}  # names in --decode_hparams
    names |= dict.fromkeys(("max_length", "max_new_tokens"), "decode_length")
    names |= {"num_beams": "beam_size", "length_penalty": "alpha"}
    return f" Use {names[name]}." if name in names else ""


def _is_int_tensor(value):
    """Return whether a value is an integer scalar tensor, eager or symbolic."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or shape is None or "int" not in str(getattr(dtype, "name", dtype)):
        return False
    return (shape.rank if hasattr(shape, "rank") else len(shape)) == 0
