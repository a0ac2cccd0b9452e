"""T2T's `--decode_hparams`: "beam_size=4,alpha=0.6,extra_length=100". No TensorFlow."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ut_keras import limits, registry
from ut_keras.errors import UsageError
from ut_keras.hparam import overrides as hparam_overrides


class Field(NamedTuple):
    """A decode hparam that works: its default (T2T's, but for our own) and its limits."""

    default: Any
    least: float | None = None
    most: float | None = None


# Of the trainer: the fields of `free_decoding.DecodeSettings`.
TRAINER = {
    "beam_size": Field(4, 1),
    "alpha": Field(0.6, 0, limits.MOST_ALPHA),
    "extra_length": Field(100, 0, limits.MOST_POSITIONS),
    "own_room": Field(True),  # ours; T2T's way is False
    "batch_size": Field(0, 0),
    "num_samples": Field(-1, -1),
}

# Of ut-decoder. The search's, by their names in `model.generate`, are ours; T2T has eos_penalty,
# which its search does not read.
DECODER = {
    **TRAINER,
    "return_beams": Field(False),
    "write_beam_scores": Field(False),
    "max_input_size": Field(-1, -1),
    "log_results": Field(True),
    "min_length": Field(0, 0),
    "eos_penalty": Field(0.0),
    "no_repeat_ngram_size": Field(0, 0),
    "num_steps": Field(0, 0, limits.MOST_STEPS),
    "sampling_temp": Field(0.0, 0),
    "top_k": Field(0, 0),
    "top_p": Field(1.0, 0, 1),
    "seed": Field(-1, -1, limits.LARGEST_SEED),
}

# The rest of T2T's: accepted with these values, which change nothing.
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
    "multiproblem_task_id": -1,
    "export_extra_infer_outputs": "",
    "summaries_log_dir": "decode",
    "save_images": False,
    "display_decoded_images": False,
}
_INSTEAD = {
    "min_length_ratio": "T2T's search does not read it either; give min_length",
    "force_decode_length": "what stands behind the end is never written; give min_length",
    "decode_to_file": "give the flag --decode_to_file",
    "decode_reference": "give the flag --decode_reference",
}
_SAMPLING = ("top_k", "top_p", "seed")


def parse(text: str, fields: Mapping[str, Field] | None = None) -> dict[str, Any]:
    """Reads decode hparams.

    Args:
        text: str, "name=value" pairs joined by commas.
        fields: `TRAINER` (the default) or `DECODER`: what the command can do.

    Returns:
        dict with a value for every field that works.

    Raises:
        HParamError: if `text` is malformed.
        UsageError: for an unknown name (the nearest are listed), a value of the wrong type or out
            of range, a field that is not supported, or fields that do not go together.
    """
    fields = TRAINER if fields is None else fields
    values = {name: field.default for name, field in fields.items()}
    for name, word in hparam_overrides.parse(text).items():
        known = {**_FIXED, **{name: field.default for name, field in DECODER.items()}}
        if name not in known:
            raise UsageError(registry.unknown_name_message("decode hparam", name, list(known)))
        value = _convert(name, str(word), type(known[name]))
        if name in fields:
            _check_range(name, value, fields[name])
            values[name] = value
        elif value != known[name]:
            raise UsageError(_refusal(name, value))
    _check_together(values)
    return values


def check_fits(values: Mapping[str, Any], vocab_size: int) -> None:
    """Raises `UsageError` for more beams than there are symbols."""
    if values["beam_size"] > vocab_size:
        raise UsageError(
            "The decode hparam beam_size must be at most the size of the targets' vocabulary, "
            f"{vocab_size}. Received: {values['beam_size']}."
        )


def search_options(values: Mapping[str, Any], batch: int = 0) -> dict[str, Any]:
    """What `model.generate` is called with, but for what is its default anyway.

    Args:
        values: dict from `parse(text, DECODER)`.
        batch: int, the batch's number: each samples with a seed of its own.
    """
    options = {name: values[name] for name in ("beam_size", "alpha")}
    options["decode_length"] = values["extra_length"]
    names = ("own_room", "min_length", "eos_penalty", "no_repeat_ngram_size", "top_k", "top_p")
    for name in names:
        if values[name] != DECODER[name].default:
            options[name] = values[name]
    if values["sampling_temp"]:
        options["temperature"] = values["sampling_temp"]
        if values["seed"] >= 0:
            options["seed"] = (values["seed"] + batch) % 2**31
    return options


def _check_range(name, value, field):
    if isinstance(value, (bool, str)):
        return
    expected = limits.why_not(value, field.least, field.most)
    if expected:
        raise UsageError(f"The decode hparam {name} must be {expected}. Received: {value}.")


def _refusal(name, value):
    if name in DECODER:
        reason = "works in ut-decoder only"
    else:
        reason = f"is not supported{'; ' + _INSTEAD[name] if name in _INSTEAD else ' yet'}"
    return f"The decode hparam {name} {reason}. Received: {name}={value!r}."


def _check_together(values):
    if values.get("write_beam_scores") and not values["return_beams"]:
        raise UsageError(
            "The decode hparam write_beam_scores goes with return_beams=True only. "
            "Received: return_beams=False."
        )
    if values.get("sampling_temp") and values["beam_size"] > 1:
        raise UsageError(
            "The decode hparam sampling_temp goes with beam_size=1 only. "
            f"Received: sampling_temp={values['sampling_temp']}, beam_size={values['beam_size']}."
        )
    for name in _SAMPLING if "sampling_temp" in values else ():
        if values[name] != DECODER[name].default and not values["sampling_temp"]:
            raise UsageError(
                f"The decode hparam {name} is for sampling: sampling_temp must be above 0. "
                f"Received: {name}={values[name]}, sampling_temp=0.0."
            )
    if 0 < values.get("sampling_temp", 0) < limits.LEAST_TEMPERATURE:
        raise UsageError(
            f"The decode hparam sampling_temp must be 0 or at least {limits.LEAST_TEMPERATURE}. "
            f"Received: {values['sampling_temp']}."
        )
    if values.get("top_p") == 0:
        raise UsageError("The decode hparam top_p must be above 0. Received: 0.0.")


def _convert(name, word, kind):
    try:
        if kind is bool:
            return {"true": True, "false": False}[word.lower()]
        return kind(word)
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"The decode hparam {name} must be of type {kind.__name__}. Received: {word!r}."
        ) from error
