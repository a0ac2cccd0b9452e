"""Positions that training draws from a larger range, so that longer sequences hold no new ones."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam import HParamError, TransformerHParams
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.basic.layer import PositionWise
from ut_keras.layers.position import timing_signal


@keras.saving.register_keras_serializable(package="ut_keras")
class RandomizedPosition(PositionWise):
    """Adds the sinusoids of positions that are far apart (`pos="randomized"`).

        training:   p_0 < ... < p_{S-1}, drawn out of 0 .. L-1 without replacement, for a batch
        inference:  p_i = i (L // M), at least i

    The authors draw at inference, too: then an answer differs from call to call, and a position
    that is written would have to move when the next one comes. Here positions are as far apart as M
    of them are in the range, which training has seen for lengths about M, and now and then for
    shorter ones.

    Args:
        positions: int L.
        max_length: int M, the longest sequence that the model is for; longer ones pass beyond L.
    Call arguments:
        x: float tensor [B, S, D].
        positions: int tensor, which positions they are; 0 .. S-1 by default. Optional.
    Returns:
        Tensor like `x`.
    Raises:
        ValueError: if max_length < 1 or positions < max_length.
    References: Ruoss et al. 2023, Randomized Positional Encodings Boost Length Generalization of
        Transformers; its code, `noisy_fixed_positional_encodings`, L = 2048.
    """

    def __init__(self, positions: int, max_length: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 1 <= max_length <= positions:
            raise ValueError(
                "max_length must be in [1, positions]. "
                f"Received: max_length={max_length}, positions={positions}."
            )
        self.positions = positions
        self.max_length = max_length
        self.seed_generator = keras.random.SeedGenerator()

    def call(
        self, x: tf.Tensor, positions: tf.Tensor | None = None, training: bool | None = None
    ) -> tf.Tensor:
        length = tf.shape(x)[1]
        if positions is None:
            positions = tf.range(length)[tf.newaxis]
        if training:
            positions = tf.gather(self.sample_positions(length), positions)
        else:
            positions *= self.positions // self.max_length
        return x + tf.cast(timing_signal.sinusoid(positions, x.shape[-1]), x.dtype)

    def sample_positions(self, length: tf.Tensor) -> tf.Tensor:
        """int32 [length], ascending, each subset as often; 0 .. length - 1 where L is less."""
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        keys = tf.random.stateless_uniform([tf.maximum(self.positions, length)], seed)
        return tf.sort(tf.argsort(keys)[:length])


def check_no_step_position_signal(hp: TransformerHParams) -> None:
    """Raises `HParamError` where every step of a recurrence says the true position besides."""
    if getattr(hp, "add_position_timing_signal", False):
        raise HParamError(
            f"pos={hp.pos!r} requires add_position_timing_signal=False, because the signals of "
            "the steps encode the true positions. Received: add_position_timing_signal=True."
        )


@parts.position_signals.register("randomized")
def _make(hp, side):
    check_no_step_position_signal(hp)
    if not 1 <= hp.max_length <= hp.pos_randomized_range:
        raise HParamError(
            "max_length must be in [1, pos_randomized_range] for pos='randomized'. "
            f"Received: pos_randomized_range={hp.pos_randomized_range}, max_length={hp.max_length}."
        )
    dtype = from_hparams.dtype_policy(hp)
    return RandomizedPosition(hp.pos_randomized_range, hp.max_length, dtype=dtype)
