"""Matrix products of attention over the last two axes, without broadcasting.

On a CPU, TensorFlow 2.21 writes beyond the end of the result if it broadcasts one matrix over a
batch (tensorflow issue 117700). Then the result is wrong, or the process crashes. An example is the
product of [B, 1, T, d] and [1, T, d] or [1, 1, T, d]. Use `per_head` for tables that all examples
share.
"""

import tensorflow as tf


def product(
    a: tf.Tensor, b: tf.Tensor, transpose: bool = False, transpose_a: bool = False
) -> tf.Tensor:
    """Return the product a b, a b^T (`transpose`) or a^T b (`transpose_a`).

    Args:
        a: [..., T, d], or [..., d, T] if `transpose_a`.
        b: [..., d, S], or [..., S, d] if `transpose`. The leading axes equal the leading axes of
            `a`.

    Returns:
        [..., T, S].

    Raises:
        ValueError: if known sizes of leading axes differ.
    """
    if not a.shape[:-2].is_compatible_with(b.shape[:-2]):
        raise ValueError(
            "a and b must have equal shapes before the last two axes. "
            f"Received: {a.shape} and {b.shape}."
        )
    # Decoding computes many products with a single query. TensorFlow uses oneDNN for `tf.matmul`,
    # but not for `BatchMatMulV3`. For a single query, `tf.matmul` with oneDNN takes four times as
    # long as `BatchMatMulV3`.
    if a.shape[-2] == 1 and not transpose_a:
        return tf.raw_ops.BatchMatMulV3(x=a, y=b, Tout=a.dtype, adj_y=transpose)
    return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose)


def per_head(x: tf.Tensor, tables: tf.Tensor, transpose: bool = False) -> tf.Tensor:
    """Multiply every example with one table per head.

    Args:
        x: [B, H, T, d].
        tables: [H, d, S], or [H, S, d] if `transpose`. If the first axis has size 1, all heads use
            the same table.

    Returns:
        [B, H, T, S].
    """
    columns = "sd" if transpose else "ds"
    if tables.shape[0] == 1:
        return tf.einsum(f"bhtd,{columns}->bhts", x, tables[0])
    return tf.einsum(f"bhtd,h{columns}->bhts", x, tables)
