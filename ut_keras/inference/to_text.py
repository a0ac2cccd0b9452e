"""Ids of a feature as text, by the encoders in Python."""

from collections.abc import Callable, Mapping
from typing import Any

from ut_keras.data.features import FeatureSpec
from ut_keras.text.text_encoder_base import TextEncoder, cut_at_eos


def to_text_function(
    encoders: Mapping[str, TextEncoder], specs: Mapping[str, FeatureSpec]
) -> Callable[[str, Any], str]:
    """Function (feature name, ids) -> str.

    Args:
        encoders: dict from feature name to `TextEncoder`.
        specs: dict from feature name to `FeatureSpec`.
    """

    def to_text(name, ids):
        if specs[name].modality == "class_label":
            return encoders[name].decode([int(i) for i in ids])
        if ids.ndim > 1:
            sentences = [encoders[name].decode(cut_at_eos(row)) for row in ids]
            return " | ".join(sentence for sentence in sentences if sentence)
        return encoders[name].decode(cut_at_eos(ids))

    return to_text
