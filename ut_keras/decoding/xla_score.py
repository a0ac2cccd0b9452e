"""Decides whether XLA compiles the scoring of targets, and pads the batch.

XLA compiles a forward pass once for each shape. So the number of examples and the lengths are
padded to powers of two, as in `xla_search`. Padding does not change the scores.
"""

from collections.abc import Mapping

import tensorflow as tf

from ut_keras.decoding import batch_plan, xla_fallback, xla_search
from ut_keras.decoding.decoded_model import DecodedModel
from ut_keras.decoding.options import AUTO

WORK = "the scoring"


def is_used(model: DecodedModel, jit_compile: bool | str) -> bool:
    """Return whether XLA compiles the scoring, outside of a `tf.function`."""
    if not xla_fallback.is_allowed(model, WORK, jit_compile):
        return False
    if jit_compile == AUTO and (reason := batch_plan.why_equal_lengths(model, scores=True)):
        xla_fallback.log_reason(
            WORK, f"the features must not be padded to few lengths, because {reason}"
        )
        return False
    return True


def pad(model: DecodedModel, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Return the features of a batch, padded to one of few shapes.

    An example that only fills the batch is a copy of the last example, so it does not increase the
    number of steps in depth.

    Args:
        model: a `DecodedModel`.
        features: dict with "targets" int32 [B, T]. Except for language models, it has "inputs"
            int32 [B, S] or [B, sentences, words].
    """
    number = features["targets"].shape[0]
    indices = tf.minimum(tf.range(xla_search.bucket(number)), number - 1)
    may_pad = not batch_plan.why_equal_lengths(model, scores=True)
    lengths = {name: ids.shape[1] for name, ids in features.items() if ids.shape.rank == 2}
    buckets = {n: xla_search.bucket(size, xla_search.LEAST_LENGTH) for n, size in lengths.items()}
    padded = {}
    for name, ids in features.items():
        if may_pad and name in lengths:  # stories have a fixed size
            ids = tf.pad(ids, [[0, 0], [0, buckets[name] - lengths[name]]])
        padded[name] = tf.gather(ids, indices)
    return padded
