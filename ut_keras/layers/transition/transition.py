"""What a transition function is, whatever is in it."""

from typing import Any

import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import dense
from ut_keras.layers.basic.signature import Shape


class Transition(dense.WithKernels):
    """What a `TransformerLayer` has behind its attention.

    A subclass has `_transform(x, padding_mask, cache, training)`.

    Args:
        hidden_size: int D, width of the output.
        dropout_rate: float. Of the dropout inside.
        kernel_initializer: Keras initializer.
    Call arguments:
        x: float tensor [B, S, D].
        padding_mask: bool tensor [B, S], True at real tokens. Optional.
        cache: `LayerCache`, for what sees other positions. Optional.
        training: bool.
        mask: as `padding_mask`; Keras finds that of `Masking` or `Embedding(mask_zero=True)` on x.
    Returns:
        float tensor [B, S, D].
    """

    supports_masking = True

    def __init__(self, hidden_size: int, dropout_rate: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.dropout_rate = dropout_rate

    def call(
        self,
        x: tf.Tensor,
        padding_mask: tf.Tensor | None = None,
        cache: cache_lib.LayerCache | None = None,
        training: bool | None = None,
        mask: tf.Tensor | None = None,
    ) -> Any:
        return self._transform(x, mask if padding_mask is None else padding_mask, cache, training)

    def _transform(self, x, padding_mask, cache, training):
        raise NotImplementedError

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape[:-1], self.hidden_size)


def zero_at_padding(x: tf.Tensor, padding_mask: tf.Tensor | None) -> tf.Tensor:
    """x [B, S, D], 0 where `padding_mask` is False; as it is without one."""
    if padding_mask is None:
        return x
    return x * tf.cast(padding_mask, x.dtype)[..., tf.newaxis]
