"""T2T's `--decode_hparams`: "beam_size=4,alpha=0.6,extra_length=100". No TensorFlow."""

from ut_keras import hparam_overrides, registry
from ut_keras.bin.flags import UsageError

# What works, with T2T's defaults; the fields of `free_decoding.DecodeSettings`.
_WORKING = {
    "beam_size": 4,
    "alpha": 0.6,
    "extra_length": 100,
    "batch_size": 0,
    "num_samples": -1,
}

# The rest of T2T's: accepted with these values, which change nothing.
_FIXED = {
    "return_beams": False,
    "write_beam_scores": False,
    "force_decode_length": False,
    "min_length_ratio": 0.0,
    "eos_penalty": 0.0,
    "block_size": 0,
    "guess_and_check_top_k": 0,
    "guess_and_check_epsilon": -1,
    "insertion_parallel": False,
    "max_input_size": -1,
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
    "log_results": True,
    "summaries_log_dir": "decode",
}

_LEAST = {"beam_size": 1, "alpha": 0, "extra_length": 0, "batch_size": 0, "num_samples": -1}


def parse(text):
    """Reads decode hparams.

    Args:
        text: str, "name=value" pairs joined by commas.

    Returns:
        dict with a value for every field that works.

    Raises:
        HParamError: if `text` is malformed.
        UsageError: for an unknown name (the nearest are listed), a value of the wrong type or out
            of range, or a field that is not supported.
    """
    values = dict(_WORKING)
    for name, word in hparam_overrides.parse(text).items():
        default = {**_WORKING, **_FIXED}.get(name)
        if default is None:
            known = [*_WORKING, *_FIXED]
            raise UsageError(registry.unknown_name_message("decode hparam", name, known))
        value = _convert(name, str(word), type(default))
        if name in _FIXED and value != default:
            raise UsageError(
                f"The decode hparam {name} is not supported yet. Received: {name}={value!r}."
            )
        if name in _WORKING:
            if value < _LEAST[name]:
                raise UsageError(
                    f"The decode hparam {name} must be at least {_LEAST[name]}. Received: {value}."
                )
            values[name] = value
    return values


def _convert(name, word, kind):
    try:
        if kind is bool:
            return {"true": True, "false": False}[word.lower()]
        return kind(word)
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"The decode hparam {name} must be of type {kind.__name__}. Received: {word!r}."
        ) from error
