"""Products over the last two axes of attention, none of which broadcasts.

TensorFlow 2.21 on a CPU writes past the end of the result where a product spreads one matrix over
a batch, [B, 1, T, d] with [1, T, d] or [1, 1, T, d] (tensorflow issue 117700): wrong numbers, or
the process dies. So what all examples share comes in by `per_head`.
"""

import tensorflow as tf


def product(a: tf.Tensor, b: tf.Tensor, transpose: bool = False) -> tf.Tensor:
    """a b, or a b^T.

    Args:
        a: [..., T, d].
        b: [..., d, S], or [..., S, d] to be transposed; the leading axes are those of `a`.
    Returns:
        [..., T, S].
    Raises:
        ValueError: if it is known that leading axes differ.
    """
    if not a.shape[:-2].is_compatible_with(b.shape[:-2]):
        raise ValueError(
            "a and b must have equal shapes before the last two axes. "
            f"Received: {a.shape} and {b.shape}."
        )
    # Decoding takes many products of one query; the third version is not rewritten to oneDNN's,
    # which takes four times as long there.
    if a.shape[-2] == 1:
        return tf.raw_ops.BatchMatMulV3(x=a, y=b, Tout=a.dtype, adj_y=transpose)
    return tf.matmul(a, b, transpose_b=transpose)


def per_head(x: tf.Tensor, tables: tf.Tensor, transpose: bool = False) -> tf.Tensor:
    """The product of every example with the table of its head.

    Args:
        x: [B, H, T, d].
        tables: [H, d, S], or [H, S, d] to be transposed; one for all heads: [1, ...].
    Returns:
        [B, H, T, S].
    """
    columns = "sd" if transpose else "ds"
    if tables.shape[0] == 1:
        return tf.einsum(f"bhtd,{columns}->bhts", x, tables[0])
    return tf.einsum(f"bhtd,h{columns}->bhts", x, tables)
