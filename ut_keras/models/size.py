"""Whether a model can fit in memory at all: said before the first of its tables is made."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ut_keras.data.features import FeatureSpec
from ut_keras.hparam.field import HParamError
from ut_keras.process import device_memory

_BYTES = 4  # of a weight


def check(hp: Any, specs: Mapping[str, FeatureSpec]) -> None:
    """Checks the weights that a model has at least, on a machine without a GPU.

    (A GPU's allocator knows its memory and says at once what is too much.)

    Args:
        hp: hparams.
        specs: dict from feature name to `FeatureSpec`.
    Raises:
        HParamError: names the sizes.
    """
    if tf.config.list_physical_devices("GPU"):
        return
    needed, there = _BYTES * least_weights(hp, specs), device_memory.limit()
    if there is not None and needed > there:
        names = ("hidden_size", "filter_size", "num_hidden_layers")
        sizes = ", ".join(f"{name}={getattr(hp, name)}" for name in names if hasattr(hp, name))
        raise HParamError(
            f"The weights must fit in memory, {there / 1e9:.1f} GB. Received: at least "
            f"{needed / 1e9:,.1f} GB, by {sizes} and a vocabulary of {_vocabulary(specs)}."
        )


def least_weights(hp: Any, specs: Mapping[str, FeatureSpec]) -> int:
    """How many weights a model has at least.

    One table of symbols, and the large matrices of one stack; a recurrence counts as one layer.
    """
    width, vocabulary = hp.hidden_size, _vocabulary(specs)
    if not hasattr(hp, "filter_size"):
        return width * vocabulary + hp.num_hidden_layers * 8 * width**2  # LSTM
    layers = 1 if hasattr(hp, "num_rec_steps") else hp.num_hidden_layers
    keys = hp.attention_key_channels or width
    values = hp.attention_value_channels or width
    layer = 2 * width * (keys + values)
    if hp.ffn_layer in ("dense_relu_dense", "conv_hidden_relu", "conv_relu_conv"):
        layer += 2 * width * hp.filter_size
    return width * vocabulary + layers * layer


def _vocabulary(specs):
    """The size of the largest: each symbol has a row of a table."""
    sizes = (spec.vocab_size for spec in specs.values() if spec.modality != "class_label")
    return max(sizes, default=0)
