"""How long the model pondered: what its stacks report, over real positions only."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


def times_and_masks(output: Any, features: Mapping[str, tf.Tensor], targets: Any) -> dict[str, Any]:
    """Ponder times of each stack that has them.

    Args:
        output: `ModelOutput`.
        features: dict of int tensors; the encoder's positions are those of "inputs".
        targets: int tensor [B, T], or [B] for classes; the decoder's positions.

    Returns:
        dict from "encoder" and "decoder", where there are any, to a pair of float32 tensors
        [B, length]: the ponder times, in steps, and 1 at real positions.
    """
    # A classifier's decoder has one position per row, which is real whatever the class.
    target_ids = targets
    if len(output.logits.shape) == 2:
        target_ids = tf.ones([tf.shape(targets)[0], 1], tf.int32)
    found = {}
    for name, stack, ids in (
        ("encoder", output.encoder, features.get("inputs")),
        ("decoder", output.decoder, target_ids),
    ):
        if stack is None or stack.ponder_times is None:
            continue
        times = tf.cast(stack.ponder_times, tf.float32)
        found[name] = (times, _position_mask(ids, times))
    return found


def sum_and_count(pondered: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The steps pondered over all real positions and the number of those positions."""
    if not pondered:
        return tf.constant(0.0), tf.constant(0.0)
    total = tf.add_n([tf.reduce_sum(times * mask) for times, mask in pondered.values()])
    count = tf.add_n([tf.reduce_sum(mask) for _, mask in pondered.values()])
    return total, count


def _position_mask(ids, times):
    real = tf.cast(ids != 0, tf.float32)
    # A sentence (an axis of words behind the positions) is real if it has a word, and a row that
    # ponders as one (act_type "global") if it has a position.
    while len(real.shape) > len(times.shape):
        real = tf.reduce_max(real, axis=-1)
    return real
