"""What can be asked of a search, in one table. No TensorFlow.

From it are made `generate`'s arguments and their checks, the inputs of a search's graph, and decode
hparams.
"""

import dataclasses
import numbers
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from ut_keras.errors import UsageError
from ut_keras.hparam import limits


class Spec(NamedTuple):
    """What is to be said of an option besides its default here."""

    least: float | None
    most: float | None
    dtype: str  # of a number that a graph takes as an input; "": another value is another graph
    hparam: str  # its name as a decode hparam; "": there is none
    hparam_default: Any


def _option(default, least=None, most=None, dtype="", hparam=None, hparam_default=None):
    if hparam_default is None:
        hparam_default = default
    return dataclasses.field(
        default=default, metadata={"spec": Spec(least, most, dtype, hparam, hparam_default)}
    )


@dataclasses.dataclass(frozen=True)
class Options:
    """What can be asked of a search.

    Fields:
        beam_size: int. 1 is greedy.
        alpha: float. Length penalty ((5 + length) / 6)^alpha of beam search.
        decode_length: int. Positions beyond the source's length; of a language model, beyond the
            prompt's.
        per_example_length: bool. True: the length of a source is that of the example, up to its
            last id. False, as in T2T: it is that of the padded batch.
        min_length: int. Symbols before the first EOS, unless that is forced, or all that is left
            after what a beam has written.
        eos_penalty: float. What EOS costs more, in log probability; in scores of beams, too, but
            not in those of greedy search, nor where it is forced.
        no_repeat_ngram_size: int n. No n tokens in a row are written twice; 0: they may.
        num_steps: int. Steps in depth, see `Transformer.with_steps`; None: as many as ever.
        exit_threshold: float. A position halts when what its halting rule adds up or compares is
            beyond it: sooner below 1 - epsilon, later above; None: beyond 1 - epsilon as ever.
        temperature: float. Above 0, tokens are drawn instead of searched for; log probabilities
            are divided by it.
        top_k: int. Draws from so many of the likeliest; 0: all.
        top_p: float in (0, 1]. Draws from the likeliest, as few as have this probability together
            (Holtzman et al. 2020).
        seed: int; in a traced function a scalar tensor, too. Of the draws; without it they differ
            from call to call.
        forced_prefix: int [B, P] that results begin with, whatever else is asked, 0-padded on the
            right. It is scored.
        cache: bool. Whether earlier positions are kept; False runs over the whole prefix.
        return_steps: bool. Whether the steps are handed back that each position took, by one more
            pass over what was written.
    """

    # Decode hparams have T2T's names and defaults. T2T has no `per_example_length`.
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

    @property
    def depth(self) -> dict[str, Any]:
        """Those of a pass, too, that searches nothing."""
        return {"num_steps": self.num_steps, "exit_threshold": self.exit_threshold}

    def __post_init__(self) -> None:
        # Python's own numbers and bools: TensorFlow would give numpy's a dtype of their own.
        for name in (*SPECS, *_BOOLS):
            value = getattr(self, name)
            if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
                object.__setattr__(self, name, value.item())

    def check(self) -> None:
        """Raises `ValueError` for an option of another type or out of range."""
        for name in (*SPECS, *_BOOLS):
            if expected := self._expected(name):
                raise ValueError(f"{name} must be {expected}. Received: {getattr(self, name)}.")
        problem = self.conflict({name: name for name in SPECS})
        if problem:
            raise ValueError(problem)

    def _expected(self, name):
        """What an option should be and is not, or None."""
        value = getattr(self, name)
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
        """What is wrong with numbers that are in range, or None.

        Args:
            names: what the options are called where they were given.
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
_FLOATS = [field.name for field in dataclasses.fields(Options) if "float" in str(field.type)]
_BOOLS = [field.name for field in dataclasses.fields(Options) if "bool" in str(field.type)]
# The numbers that a graph takes as inputs, with their dtypes.
NUMBERS = {name: spec.dtype for name, spec in SPECS.items() if spec.dtype}


# Old name -> new name. Old names work for one version.
_RENAMED = {"own_room": "per_example_length"}


def current_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by their current names; an old name works, with a DeprecationWarning.

    The warning points at the caller of the function that calls this one.

    Raises:
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
                stacklevel=3,
            )
        current[new or name] = value
    return current


def _is_int_tensor(value):
    """Whether it is a scalar tensor of ints, of a graph or not."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or shape is None or "int" not in str(getattr(dtype, "name", dtype)):
        return False
    return (shape.rank if hasattr(shape, "rank") else len(shape)) == 0
