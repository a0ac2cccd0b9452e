"""Positions counted from both ends, which a source and what is written of it share."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam import HParamError
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.basic.signature import Config, Shape
from ut_keras.layers.position import randomized_position, timing_signal

_LEAST = 2  # places for a position, at least; so room is left for draws
_CHANNELS = 4


@keras.saving.register_keras_serializable(package="ut_keras")
class EndsPosition(randomized_position.RandomizedPosition):
    """Adds where a position is from the first one on, and from the last (`pos="randomized_ends"`).

        x_i + [sinusoid(p_i) | sinusoid(p_{n-1-i})]          half of the channels each

    n-1-i is how many real positions are behind i, wherever there is padding. Where the end is not
    known, in what is being written, both halves are of p_i. So what is copied stands where the
    first halves are equal, and what is reversed where the second half of the source is the first
    of the target.

        training:   p_0 < ... < p_{S-1}, drawn without replacement out of R places in a row, for a
                    batch; R in 2 S .. L, its logarithm uniform; where they begin is uniform
        inference:  p_i = 2 i, as near as training puts all of them

    Both sides have the same p (as coupled positions have, Cho et al. 2024). Otherwise than those of
    `RandomizedPosition`, places are as often near each other as far apart: of a few out of all L,
    none are as near as many are at inference. That, and the second end, are ours.

    Args:
        positions: int L; sequences longer than half of it pass beyond what training has seen.
    Call arguments:
        x: float tensor [B, S, D].
        positions: int tensor, which positions they are; 0 .. S-1 by default. Optional.
        training: bool.
        places: int32 [at least S], what `draw` gave the other side; drawn in training without.
        padding_mask: bool [B, S], True at real tokens. None where the end is not known.
    Returns:
        Tensor like `x`.
    Raises:
        ValueError: if positions < 1, or D < 4: a half needs a sine and a cosine.
    References: Ruoss et al. 2023, Randomized Positional Encodings Boost Length Generalization of
        Transformers; Cho et al. 2024, Position Coupling.
    """

    apart = _LEAST

    def __init__(self, positions: int, **kwargs: Any) -> None:
        super().__init__(positions, max_length=positions, **kwargs)

    def build(self, input_shape: Shape) -> None:
        if input_shape[-1] < _CHANNELS:
            raise HParamError(
                f"Positions from both ends need a width of {_CHANNELS} at least, for each has half "
                f"of the channels. Received: {input_shape[-1]}."
            )

    def call(
        self,
        x: tf.Tensor,
        positions: tf.Tensor | None = None,
        training: bool | None = None,
        places: tf.Tensor | None = None,
        padding_mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        length = tf.shape(x)[1]
        first = tf.range(length)[tf.newaxis] if positions is None else positions
        last = first
        if padding_mask is not None:
            real = tf.cast(padding_mask, tf.int32)
            last = tf.cumsum(real, axis=-1, exclusive=True, reverse=True)
        if training and places is None:
            places = self.draw(length)
        signals = [
            timing_signal.sinusoid(self._places(index, places), channels)
            for index, channels in (
                (tf.broadcast_to(first, tf.shape(last)), x.shape[-1] // 2),
                (last, x.shape[-1] - x.shape[-1] // 2),
            )
        ]
        return x + tf.cast(tf.concat(signals, axis=-1), x.dtype)

    def _places(self, index, places):
        if places is None:
            return index * self.apart
        return tf.gather(places, index)

    def draw(self, length: tf.Tensor) -> tf.Tensor:
        """int32 [length], ascending; out of 0 .. length - 1 where that is more than L."""
        size, start = (tf.cast(self.seed_generator.next(), tf.int32) for _ in range(2))
        most = tf.maximum(self.positions, length)
        least = tf.minimum(_LEAST * length, most)
        growth = tf.cast(most, tf.float32) / tf.cast(least, tf.float32)
        wanted = tf.cast(least, tf.float32) * growth ** tf.random.stateless_uniform([], size)
        among = tf.clip_by_value(tf.cast(wanted, tf.int32), least, most)
        begin = tf.random.stateless_uniform([], start, 0, most - among + 1, tf.int32)
        return begin + self.draw_out_of(among, most, length)

    def get_config(self) -> Config:
        config = super().get_config()
        del config["max_length"]
        return config


@parts.position_signals.register("randomized_ends")
def _make(hp, side):
    del side
    randomized_position.check_no_true_positions(hp)
    if hp.unidirectional_encoder:
        raise HParamError(
            "pos='randomized_ends' needs unidirectional_encoder=False, for a position is told how "
            "many are behind it. Received: unidirectional_encoder=True."
        )
    return EndsPosition(hp.pos_randomized_range, dtype=from_hparams.dtype_policy(hp))
