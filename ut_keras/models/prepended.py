"""T2T's `prepend_mode`, in which the decoder reads the inputs before the targets.

    inputs 5 3 1 0 0    targets 7 2 1 0    ─join─>    5 3 1 0 7 2 1 0 0 0

For each example, the decoder reads one sequence: first the inputs, then a 0, then the targets. The
decoder attends to the encoder as usual. There are two modes:

- "prepend_inputs_masked_attention": each position attends to earlier positions only, and the
  training loss includes the inputs.
- "prepend_inputs_full_attention": all inputs attend to each other, and the training loss does not
  include the inputs.

In both modes, logits and metrics contain only the targets.

References: T2T `data_generators/problem.py` `preprocess_example_common`, `common_attention.py`
`attention_bias_prepend_inputs_full_attention`, `common_layers.weights_prepend_inputs_to_targets`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.data.features import FeatureSpec
from ut_keras.errors import DataError
from ut_keras.hparam_schema import HParamError

MASKED, FULL = "prepend_inputs_masked_attention", "prepend_inputs_full_attention"


def check(hp: Any, specs: Mapping[str, FeatureSpec], has_decoder: bool) -> None:
    """Raise `HParamError` if the model does not support its `prepend_mode`.

    The function compares the mode with the other hparams and with the features.
    """
    mode = getattr(hp, "prepend_mode", "none")
    if mode == "none":
        return
    sizes = {name: spec.vocab_size for name, spec in specs.items() if spec.modality == "symbol"}
    conflicts = {
        "a decoder, symbol targets, and symbol inputs with at most as large a vocabulary": (
            sizes.keys() != {"inputs", "targets"}
            or not has_decoder
            or sizes["inputs"] > sizes["targets"],
            f"symbols: {sizes}{'' if has_decoder else ', without a decoder'}",
        ),
        "self_attention_type=dot_product, because inputs attend to each other": (
            mode == FULL and hp.self_attention_type != "dot_product",
            f"self_attention_type={hp.self_attention_type}",
        ),
        "another pos, because encoder and decoder sample coupled positions together": (
            str(hp.pos).startswith("coupled"),
            f"pos={hp.pos}",
        ),
        "max_target_seq_length=0, because it would truncate inputs and targets together": (
            hp.max_target_seq_length > 0,
            f"max_target_seq_length={hp.max_target_seq_length}",
        ),
    }
    for requirement, (is_wrong, received) in conflicts.items():
        if is_wrong:
            raise HParamError(f"prepend_mode={mode} requires {requirement}. Received: {received}.")


class Joined(NamedTuple):
    """Inputs and targets in one sequence."""

    ids: tf.Tensor  # int32 [B, S + 1 + T]
    input_ids: tf.Tensor  # int32 [B, S + 1 + T], `ids` with 0 after the inputs
    target_positions: tf.Tensor  # int32 [B, T], the position of each target


def join(features: Mapping[str, Any], inputs: tf.Tensor, targets: tf.Tensor) -> Joined:
    """Join inputs [B, S] and targets [B, T], int32.

    Raises:
        DataError: if `features` are packed examples.
    """
    if "targets_segmentation" in features:
        raise DataError("prepend_mode requires one example per row. Received: packed examples.")
    size, length = tf.shape(inputs)[1], tf.shape(targets)[1]
    input_lengths = tf.math.count_nonzero(inputs, axis=1, keepdims=True, dtype=tf.int32)
    both = tf.concat([tf.pad(inputs, [[0, 0], [0, 1]]), targets], axis=1)
    position = tf.range(size + 1 + length)[tf.newaxis]
    # The index in `both` for positions at and after the 0 that separates inputs and targets.
    # Positions after the last target read this 0 again.
    target_index = position - input_lengths + size
    source_index = tf.where(
        position < input_lengths,
        position,
        tf.where(target_index <= size + length, target_index, size),
    )
    ids = tf.gather(both, source_index, batch_dims=1)
    input_ids = tf.where(position < input_lengths, ids, 0)
    return Joined(ids, input_ids, input_lengths + 1 + tf.range(length)[tf.newaxis])


def inputs_mask(ids: tf.Tensor) -> tf.Tensor:
    """Return a mask that is True for the inputs in ids [B, L] and the 0 after them.

    Every position may attend to the keys where the mask is True.

    Returns:
        bool [B, 1, 1, L].
    """
    before = tf.cumsum(tf.cast(ids == 0, tf.int32), axis=1, exclusive=True)
    return (before == 0)[:, tf.newaxis, tf.newaxis]
