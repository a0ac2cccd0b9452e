"""Ids as they come from a caller: ints of any size, and nothing that would have to be rounded."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf


def check_features(features: Any, names: Sequence[str] = ()) -> None:
    """Raises `ValueError` unless `features` are a dict that has all these names."""
    if not isinstance(features, Mapping):
        shape = getattr(features, "shape", None)
        received = type(features).__name__ if shape is None else f"a tensor of shape {shape}"
        raise ValueError(
            f"features must be a dict of ids by name{': ' if names else ''}{', '.join(names)}; "
            f"fit takes it as x, and the targets as y. Received: {received}."
        )
    if not set(names) <= set(features):
        raise ValueError(f"features must hold {names}. Received: {sorted(features)}.")


def as_ids(values: Any, name: str, size: int | None = None) -> tf.Tensor:
    """Returns ids as int32.

    Args:
        values: int tensor, array or nested lists of any shape.
        name: str, for the error.
        size: int. How many ids there are; looked at outside of graphs. Optional.
    Raises:
        ValueError: if they are no ints, or out of range. (Keras' embeddings would cut floats off;
            of large ints the higher bits would be, and a GPU makes zeros of ids out of range.)
    """
    ids = tf.convert_to_tensor(values)
    # An empty list has no type of its own.
    if not ids.dtype.is_integer and ids.shape.num_elements() != 0:
        raise ValueError(
            f"{name} must be ids of an int type (keras.Input takes dtype='int32'). "
            f"Received: {ids.dtype.name}."
        )
    if size is not None and tf.executing_eagerly() and tf.size(ids):
        for worst in (tf.reduce_min(ids), tf.reduce_max(ids)):
            if not 0 <= int(worst) < size:
                raise ValueError(f"{name} must be ids in [0, {size}). Received: {int(worst)}.")
    return tf.cast(ids, tf.int32)
