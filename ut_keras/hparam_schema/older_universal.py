"""Names and hparams of Universal Transformers of older T2T versions.

    hparams_to_current({"recurrence_type": "act", "act_type": "basic", …})    T2T before 1.9
        ->  {"recurrence_type": "act", "act_type": "accumulated", …}
    renamed(["…/universal_transformer_basic/ffn/conv1/kernel"], hparams)      T2T before 1.13
        ->  ["…/universal_transformer_basic/rec_layer_0/ffn/conv1/kernel"]

The names of variables changed twice:

- T2T 1.6.1 to 1.6.3 call the model r_transformer.
- Before 1.13, the layer in the recurrence has no scope rec_layer_0. The layers of
  mix_with_transformer are layer_N instead of before_ut_layer_N or after_ut_layer_N.

Some hparams select other formulas than in T2T 1.15:

- Before 1.9, the ACT types "basic", "global" and "random" compute the sum of w (s - 1) over the
  steps, for states s with weights w. "accumulated" computes the sum of w s. The difference is the
  same in all channels, so a layer normalization after the recurrence removes it.
- Before 1.9, the recurrences "gru" and "lstm" are other models, and there is "rnn".
- Before 1.11, use_memory_as_final_state discards the output of every recurrence except "act". It is
  True by default in 1.9 and 1.10.
- Before 1.13, mix_with_transformer="after_ut" has no effect with "act".
- Before 1.14, the gates of "highway" and "skip" have a residual connection.

References: r_transformer_util.py in T2T 1.6.3, and universal_transformer_util.py in T2T 1.6.6, 1.8,
1.9, 1.10, 1.12, 1.13.0 and 1.14.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ut_keras.hparam_schema.field import HParamError

_MIXED = {"before_rt": "before_ut", "after_rt": "after_ut"}  # the values of T2T 1.6.1 to 1.6.3
# The hparams.json of a Universal Transformer contains these fields in the named versions.
_FIELD_BEFORE_1_9 = "gru_transformation"
_FIELD_SINCE_1_9 = "add_ffn_unit_to_the_transition_function"
_FIELD_SINCE_1_13 = "num_inrecurrence_layers"
_FIELD_SINCE_1_14 = "scheduled_sampling_method"
_RECURRENCE = "universal_transformer_[a-z]+/"


def current_model_name(name: str) -> str:
    """Return the name of a model in T2T 1.15.

    The name of `r_transformer` is `universal_transformer`.
    """
    return re.sub(r"^r_transformer(?=$|_encoder$)", "universal_transformer", name)


def renamed(names: Iterable[str], values: Mapping[str, Any]) -> list[str]:
    """Return the names that T2T 1.15 gives to the variables of a checkpoint.

    Args:
        names: names of all variables of T2T's model or checkpoint, statistics included. T2T of any
            version wrote them.
        values: dict from name to value, the content of T2T's hparams.json.
    """
    current = [
        re.sub(r"(^|/)r_transformer(?=_|/)", r"\1universal_transformer", name) for name in names
    ]
    if any("/rec_layer_0/" in name for name in current):
        return current
    layer = r"\1rec_layer_0/\2"
    mixed = str(values.get("mix_with_transformer"))
    mixed = _MIXED.get(mixed, mixed)
    if values.get("recurrence_type") in ("gru", "lstm"):  # these have no scope of a layer
        layer = r"\1\2"
    return [
        re.sub(
            rf"({_RECURRENCE})(layer_\d+/)",
            rf"\1{mixed}_\2",
            re.sub(rf"({_RECURRENCE})((self_attention|encdec_attention|ffn)/)", layer, name),
        )
        for name in current
    ]


def hparams_to_current(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a T2T hparams.json with the values of T2T 1.15.

    Raises:
        HParamError: if T2T 1.15 has no such model.
    """
    version = _last_version(values)
    if version is None:
        return dict(values)
    current = dict(values)
    recurrence = values.get("recurrence_type")
    if recurrence in ("highway", "skip"):
        raise _error(values, "recurrence_type", "another type", "1.14", "The gates differ")
    if version == "1.8" and recurrence in ("gru", "lstm", "rnn"):
        raise _error(values, "recurrence_type", "another type", "1.9", "The formulas differ")
    if version == "1.13":
        return current
    memory = "use_memory_as_final_state"
    if recurrence not in ("lstm", "act") and values.get(memory):
        raise _error(
            values, memory, "False", "1.11", f"The recurrence {recurrence!r} has no effect", "1.12"
        )
    if "mix_with_transformer" in values:
        mixed = values["mix_with_transformer"]
        current["mix_with_transformer"] = _MIXED.get(mixed, mixed)
        if recurrence == "act" and current["mix_with_transformer"] == "after_ut":
            current["mix_with_transformer"] = None
    if version == "1.8" and recurrence == "act":
        current["act_type"] = _act_type(values)
    return current


def _last_version(values):
    """Return the last T2T version that may have written the file, or None.

    None stands for 1.14 or later, and for a file of another model.
    """
    if _FIELD_BEFORE_1_9 in values:
        return "1.8"
    if _FIELD_SINCE_1_9 not in values:  # not a Universal Transformer
        return None
    if _FIELD_SINCE_1_13 not in values:
        return "1.12"
    # Every file of 1.13 has the second field. A dict without it is not such a file.
    is_1_13 = _FIELD_SINCE_1_14 not in values and "split_targets_chunk_length" in values
    return "1.13" if is_1_13 else None


def _act_type(values):
    """Return the ACT type of T2T 1.15 that computes the outputs of a file before 1.9."""
    if values.get("act_type") == "accumulated":
        return "accumulated"
    if values.get("act_type") != "basic":
        raise _error(values, "act_type", "'basic' or 'accumulated'", "1.9", "The formulas differ")
    sequence = values.get("layer_preprocess_sequence", "none")
    is_normalized = sequence != "none" and "n" in sequence
    if not is_normalized or values.get("norm_type") != "layer":
        expected = "'accumulated' without layer normalization after the recurrence"
        raise _error(values, "act_type", expected, "1.9", "The formulas differ")
    return "accumulated"


def _error(values, name, expected, version, reason, last=""):
    edit = (
        f" If T2T {version} to {last} wrote the file, set {name}={expected} in it." if last else ""
    )
    return HParamError(
        f"{name} must be {expected} in a file of T2T before {version}. "
        f"Received: {name}={values[name]!r}. {reason} in these versions, and ut_keras does not "
        f"have their model.{edit}"
    )
