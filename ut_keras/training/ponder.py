"""The ponder times of a model's encoder and decoder, restricted to real positions."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


def times_and_masks(output: Any, features: Mapping[str, tf.Tensor], targets: Any) -> dict[str, Any]:
    """Return the ponder times and position masks of each stack with adaptive depth.

    Args:
        output: `ModelOutput`.
        features: dict of int tensors. The encoder has one position for each position of "inputs".
        targets: int tensor [B, T], or [B] for classes. The decoder has one position per target.

    Returns:
        dict with the keys "encoder" and "decoder". A key is missing if its stack has no adaptive
        depth. Each value is a pair of float32 tensors [B, length]: the ponder times in steps, and a
        mask that is 1 at real positions.
    """
    # The decoder of a classifier has one position per example. This position is real even if the
    # class is 0, although 0 means padding in other targets.
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
    """Return the total ponder time of all real positions, and their number."""
    if not pondered:
        return tf.constant(0.0), tf.constant(0.0)
    total = tf.add_n([tf.reduce_sum(times * mask) for times, mask in pondered.values()])
    count = tf.add_n([tf.reduce_sum(mask) for _, mask in pondered.values()])
    return total, count


def _position_mask(ids, times):
    real = tf.cast(ids != 0, tf.float32)
    # Some ids have more axes than the ponder times. If every position is a sentence, the last axis
    # holds the words of the sentence. A sentence is real if it has a word. With act_type "global",
    # all positions of an example halt together. The example is real if it has a real position.
    while len(real.shape) > len(times.shape):
        real = tf.reduce_max(real, axis=-1)
    return real
