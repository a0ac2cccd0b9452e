"""The inputs before the targets in the decoder, beside the encoder: T2T's `prepend_mode`.

    inputs 5 3 1 0 0    targets 7 2 1 0    ─join─>    5 3 1 0 7 2 1 0 0 0

The decoder reads a row's inputs, a 0 and its targets. Under "prepend_inputs_masked_attention" each
position sees those before it, and training predicts the inputs, too; under
"prepend_inputs_full_attention" all inputs see each other, and nothing predicts them. Logits, and
what is measured, are those of the targets.

References: T2T `data_generators/problem.py` `preprocess_example_common`, `common_attention.py`
`attention_bias_prepend_inputs_full_attention`, `common_layers.weights_prepend_inputs_to_targets`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.data.features import FeatureSpec
from ut_keras.errors import DataError
from ut_keras.hparam import HParamError

MASKED, FULL = "prepend_inputs_masked_attention", "prepend_inputs_full_attention"


def check(hp: Any, specs: Mapping[str, FeatureSpec], has_decoder: bool) -> None:
    """Raises HParamError if `prepend_mode` does not go with the rest."""
    mode = getattr(hp, "prepend_mode", "none")
    if mode == "none":
        return
    sizes = {name: spec.vocab_size for name, spec in specs.items() if spec.modality == "symbol"}
    conflicts = {
        "symbol inputs, symbol targets, a decoder, and inputs within the targets' vocabulary": (
            sizes.keys() != {"inputs", "targets"}
            or not has_decoder
            or sizes["inputs"] > sizes["targets"],
            f"symbols: {sizes}{'' if has_decoder else ', without a decoder'}",
        ),
        "self_attention_type=dot_product, because inputs attend to each other": (
            mode == FULL and hp.self_attention_type != "dot_product",
            f"self_attention_type={hp.self_attention_type}",
        ),
        "position signals that encoder and decoder do not sample together": (
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
    """Inputs and targets in a row."""

    ids: tf.Tensor  # int32 [B, S + 1 + T]
    input_ids: tf.Tensor  # the same, 0 behind the inputs
    target_positions: tf.Tensor  # int32 [B, T]: where each target is


def join(features: Mapping[str, Any], inputs: tf.Tensor, targets: tf.Tensor) -> Joined:
    """Joins inputs [B, S] and targets [B, T], int32.

    Raises:
        DataError: if `features` are of packed examples.
    """
    if "targets_segmentation" in features:
        raise DataError("prepend_mode requires one example per row. Received: packed examples.")
    size, length = tf.shape(inputs)[1], tf.shape(targets)[1]
    input_lengths = tf.math.count_nonzero(inputs, axis=1, keepdims=True, dtype=tf.int32)
    both = tf.concat([tf.pad(inputs, [[0, 0], [0, 1]]), targets], axis=1)
    position = tf.range(size + 1 + length)[tf.newaxis]
    target_index = (
        position - input_lengths + size
    )  # of a 0 and the targets; past the end, that 0 again
    source_index = tf.where(
        position < input_lengths,
        position,
        tf.where(target_index <= size + length, target_index, size),
    )
    ids = tf.gather(both, source_index, batch_dims=1)
    input_ids = tf.where(position < input_lengths, ids, 0)
    return Joined(ids, input_ids, input_lengths + 1 + tf.range(length)[tf.newaxis])


def inputs_mask(ids: tf.Tensor) -> tf.Tensor:
    """Keys that all may attend to, bool [B, 1, 1, L]: the inputs in ids [B, L], and the 0."""
    before = tf.cumsum(tf.cast(ids == 0, tf.int32), axis=1, exclusive=True)
    return (before == 0)[:, tf.newaxis, tf.newaxis]
