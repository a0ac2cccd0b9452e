"""What a row of ids says: what stands before its first EOS, without padding.

    cut_at_eos([5, 0, 6, 1, 7, 1])  ->  [5, 6]

Once for Python and once for a graph.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ut_keras.text.text_encoder_base import EOS, PAD

if TYPE_CHECKING:
    import tensorflow as tf


def cut_at_eos(ids: Iterable[int]) -> list[int]:
    """Returns the list of ids before the first EOS, without padding."""
    ids = [int(i) for i in ids]
    if EOS in ids:
        ids = ids[: ids.index(EOS)]
    return [i for i in ids if i != PAD]


def cut_at_eos_in_graph(ids: "tf.Tensor") -> "tf.RaggedTensor":
    """The same of every row.

    Args:
        ids: integer tensor [B, T].
    Returns:
        `RaggedTensor` [B, (ids)].
    """
    import tensorflow as tf

    is_over = tf.cumsum(tf.cast(ids == EOS, tf.int32), axis=1) > 0
    return tf.ragged.boolean_mask(ids, ~is_over & (ids != PAD))
