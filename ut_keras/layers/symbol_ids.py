"""Ids as they come from a caller: ints of any size, and nothing that would have to be rounded."""

import tensorflow as tf


def as_ids(values, name):
    """Returns ids as int32.

    Args:
        values: int tensor, array or nested lists of any shape.
        name: str, for the error.
    Raises:
        ValueError: if they are no ints. (Keras' embeddings would cut floats off.)
    """
    ids = tf.convert_to_tensor(values)
    # An empty list has no type of its own.
    if not ids.dtype.is_integer and ids.shape.num_elements() != 0:
        raise ValueError(
            f"{name} must be ids of an int type (keras.Input takes dtype='int32'). "
            f"Received: {ids.dtype.name}."
        )
    return tf.cast(ids, tf.int32)
