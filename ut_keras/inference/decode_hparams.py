"""T2T's `--decode_hparams`, such as "beam_size=4,alpha=0.6,extra_length=100".

This module does not import TensorFlow.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ut_keras import registry
from ut_keras.decoding import batch_seed
from ut_keras.decoding.options import AUTO, SPECS, Options, current_names, from_keywords
from ut_keras.errors import UsageError
from ut_keras.hparam_schema import limits
from ut_keras.hparam_schema import overrides as hparam_overrides
from ut_keras.hparam_schema.field import BOOLS


class Field(NamedTuple):
    """A supported decode hparam: its default and its limits.

    If T2T has the hparam, the default is T2T's.
    """

    default: Any
    least: float | None = None
    most: float | None = None


def _search_field(spec, default):
    """Return the `Field` of an option of a search.

    If the option's default is None, the hparam uses a number as its default, and this number means
    None.
    """
    least = spec.hparam_default if default is None else spec.least
    return Field(spec.hparam_default, least, spec.most)


# The options of a search. T2T has three of them: beam_size, alpha and extra_length. T2T also
# accepts eos_penalty, but its search ignores this option.
SEARCH = {spec.hparam: _search_field(spec, getattr(Options, name)) for name, spec in SPECS.items()}
# The trainer has no num_steps, because it decodes with the depth that the model was trained with.
TRAINER = {
    **{name: field for name, field in SEARCH.items() if name != "num_steps"},
    "batch_size": Field(0, 0),  # number of examples; 0 means the batches of the dataset
    "num_samples": Field(-1, -1),
}
DECODER = {
    **TRAINER,
    "num_steps": SEARCH["num_steps"],
    "return_beams": Field(False),
    "write_beam_scores": Field(False),
    "max_input_size": Field(-1, -1),
    "multiproblem_task_id": Field(-1, -1),
    "log_results": Field(True),
}

# T2T's other decode hparams. Each is accepted only with this value, which has no effect.
_FIXED = {
    "force_decode_length": False,
    "min_length_ratio": 0.0,
    "block_size": 0,
    "guess_and_check_top_k": 0,
    "guess_and_check_epsilon": -1,
    "insertion_parallel": False,
    "identity_output": False,
    "num_decodes": 1,
    "shards": 1,
    "shard_id": 0,
    "shards_start_offset": 0,
    "shard_google_format": False,
    "delimiter": "\n",
    "decode_to_file": "",
    "decode_reference": "",
    "decode_in_memory": False,
    "decode_timeout_mins": 240,
    "skip_eos_postprocess": False,
    "export_extra_infer_outputs": "",
    "summaries_log_dir": "decode",
    "save_images": False,
    "display_decoded_images": False,
    "max_display_outputs": 10,
    "max_display_decodes": 5,
    "frames_per_second": 10,
    "border_percent": 2,
    "vgg_ckpt_path": "",
    "mlperf_decode_step": 0.0,
    "mlperf_threshold": 25.0,
    "mlperf_success": False,
}
# Decode hparams that only older versions of T2T have: T2T 1.2.4 has both, and T2T 1.5.3 still has
# `problem_idx`. The search of ut_keras always computes the logits of the last position only, so
# `use_last_position_only` has no effect.
_OLDER_FIXED = {"problem_idx": 0}
OLDER_WITHOUT_EFFECT = {"use_last_position_only": True}

_ALTERNATIVES = {
    "problem_idx": "--problem selects one problem",
    "min_length_ratio": "T2T's search ignores it, too; set min_length",
    "force_decode_length": "nothing is written after EOS; set min_length",
    "decode_to_file": "use the flag --decode_to_file",
    "decode_reference": "use the flag --decode_reference",
}


def parse(text: str, fields: Mapping[str, Field] | None = None) -> dict[str, Any]:
    """Return the values of all supported decode hparams.

    Args:
        text: str, "name=value" pairs, separated by commas.
        fields: `TRAINER` (the default) or `DECODER`, the fields that the command supports.

    Raises:
        HParamError: if `text` is malformed.
        UsageError: if a field is unknown or not supported, or if a value is invalid or contradicts
            another value. For an unknown field, the message lists the nearest names.
    """
    fields = TRAINER if fields is None else fields
    values = {name: field.default for name, field in fields.items()}
    for name, word in current_names(hparam_overrides.parse(text), are_hparams=True).items():
        known = {
            **_FIXED,
            **_OLDER_FIXED,
            **OLDER_WITHOUT_EFFECT,
            **{name: field.default for name, field in DECODER.items()},
        }
        if name not in known:
            raise UsageError(registry.unknown_name_message("decode hparam", name, DECODER))
        value = _convert(name, str(word), type(known[name]))
        if name in fields:
            if expected := limits.unmet_limit(value, fields[name].least, fields[name].most):
                raise UsageError(f"The decode hparam {name} must be {expected}. Received: {value}.")
            values[name] = value
        elif value != known[name] and name not in OLDER_WITHOUT_EFFECT:
            raise UsageError(_unsupported_message(name, value))
    _check_together(values)
    return values


def check_fits(values: Mapping[str, Any], vocab_size: int) -> None:
    """Raise `UsageError` if there are more beams than tokens in the vocabulary."""
    if values["beam_size"] > vocab_size:
        raise UsageError(
            f"The decode hparam beam_size must be at most {vocab_size}, the size of the targets' "
            f"vocabulary. Received: {values['beam_size']}."
        )


def check_depth(values: Mapping[str, Any], model: Any) -> None:
    """Raise `UsageError` if the model does not support num_steps or exit_threshold."""
    try:
        model.check_steps(values.get("num_steps") or None, values.get("exit_threshold") or None)
    except ValueError as error:
        raise UsageError(f"The decode hparam {error}") from error


def to_options(
    values: Mapping[str, Any], batch: int = 0, jit_compile: bool | str = AUTO
) -> Options:
    """Convert decode hparams to checked `Options`.

    Args:
        values, batch: as for `search_options`.
        jit_compile: bool or "auto". Whether XLA compiles the search. This is no decode hparam.
    """
    keywords = {**search_options(values, batch), "jit_compile": jit_compile}
    return from_keywords(keywords, per_example_length=True)


def search_options(values: Mapping[str, Any], batch: int = 0) -> dict[str, Any]:
    """Convert decode hparams to the keyword arguments of a search or an exporter.

    Args:
        values: dict from `parse(text, DECODER)`.
        batch: int, the index of the batch. It changes the seed, so that each batch is sampled
            differently.

    Returns:
        dict from argument to value. It always contains beam_size, alpha and decode_length. It
            contains another argument only if its value is not the default.
    """
    options = {name: values[spec.hparam] for name, spec in SPECS.items() if name != "num_steps"}
    if options["seed"] >= 0:
        options["seed"] = batch_seed.of_batch(options["seed"], batch)
    always = ("beam_size", "alpha", "decode_length")
    return {
        name: value
        for name, value in options.items()
        if name in always or value != SPECS[name].hparam_default
    }


def only_for_search(values: Mapping[str, Any]) -> list[str]:
    """Return "name=value" of each option that is set but affects only a search.

    beam_size, alpha and extra_length are not included, because T2T also ignores them without a
    search.
    """
    return [
        f"{spec.hparam}={values[spec.hparam]}"
        for name, spec in SPECS.items()
        if name not in _NOT_ONLY_FOR_SEARCH and values[spec.hparam] != spec.hparam_default
    ]


_NOT_ONLY_FOR_SEARCH = (
    *("beam_size", "alpha", "decode_length"),  # T2T's options of a search
    *("per_example_length", "num_steps", "exit_threshold"),
)


def _unsupported_message(name, value):
    if name in DECODER:
        reason = "is only supported by ut-decoder"
    else:
        reason = (
            f"is not supported{'; ' + _ALTERNATIVES[name] if name in _ALTERNATIVES else ' yet'}"
        )
    return f"The decode hparam {name} {reason}. Received: {name}={value!r}."


def _check_together(values):
    if values.get("write_beam_scores") and not values["return_beams"]:
        raise UsageError(
            "The decode hparam write_beam_scores requires return_beams=True. "
            "Received: return_beams=False."
        )
    names = {name: spec.hparam for name, spec in SPECS.items()}
    problem = Options(**search_options(values)).conflict(names)
    if problem:
        raise UsageError(f"The decode hparam {problem}")
    if values["seed"] >= 0 and not values["sampling_temp"]:
        raise UsageError(
            "The decode hparam sampling_temp must be above 0 where seed is set. "
            f"Received: seed={values['seed']}, sampling_temp=0.0."
        )


def _convert(name, word, kind):
    try:
        if kind is bool:
            return BOOLS[word.lower()]
        return kind(word)
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"The decode hparam {name} must be of type {kind.__name__}. Received: {word!r}."
        ) from error
