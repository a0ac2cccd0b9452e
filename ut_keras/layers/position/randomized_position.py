"""Randomized positions, which training samples from a range of positions.

The range is longer than the sequences. Therefore all positions that longer sequences have at
inference also occur in training.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError, TransformerHParams
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.basic.layer import PositionWise
from ut_keras.layers.position import timing_signal


@keras.saving.register_keras_serializable(package="ut_keras")
class RandomizedPosition(PositionWise):
    """Adds the sinusoids of randomized positions (`pos="randomized"`).

        training:   p_0 < ... < p_{S-1}, sampled from 0 .. L-1 without replacement, once per batch
        inference:  p_i = i (L // M)

    The authors also sample at inference. With sampling, the output would differ from call to call,
    and in decoding each new token would change the positions of earlier tokens. Therefore, at
    inference, this layer uses the constant distance L // M between neighbors. In training, L // M
    is about the average distance in sequences of length M, and it also occurs in shorter sequences.

    Args:
        positions: int L.
        max_length: int M, the expected length of the longest sequence. Longer sequences have
            positions beyond L.

    Call arguments:
        x: float tensor [B, S, D].
        positions: int tensor [S] or [B, S], the positions of `x` in the sequence. Default:
            0, …, S - 1.

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
        positions = timing_signal.positions_or_default(positions, x)
        if training:
            positions = tf.gather(self.sample_positions(tf.shape(x)[1]), positions)
        else:
            positions *= self.positions // self.max_length
        return x + tf.cast(timing_signal.sinusoid(positions, x.shape[-1]), x.dtype)

    def sample_positions(self, length: tf.Tensor) -> tf.Tensor:
        """Sample positions, int32 [length], in ascending order.

        Each subset of the range has the same probability. If length > L, the result is 0, …,
        length - 1.
        """
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        keys = tf.random.stateless_uniform([tf.maximum(self.positions, length)], seed)
        return tf.sort(tf.argsort(keys)[:length])


def check_no_step_position_signal(hp: TransformerHParams) -> None:
    """Check that the signals of the recurrence steps do not encode the true positions.

    Raises:
        HParamError: if hp.add_position_timing_signal is True.
    """
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
