"""Coupled positions: corresponding source and target tokens share a position id."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.basic.layer import PositionWise, check_choice, check_least
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.position import randomized_position, timing_signal
from ut_keras.ops import gather
from ut_keras.ops import seed as seed_lib

_EOS = 1  # the EOS id of T2T


@keras.saving.register_keras_serializable(package="ut_keras")
class CoupledPosition(PositionWise):
    """Adds learned vectors of ids that source and target share (`pos="coupled"`).

        x_i + table[p_i]

        targets:   p_i = i
        source:    p_i = i - b in the segment that begins at b. With order="reversed", the ids of a
                   segment are reversed. A segment ends with `separator` or EOS. The id of this
                   last token is the number of tokens before it in the segment.

    Therefore, if the task copies or reverses the source, each source token has the id of its target
    position. If the source is a sum, digits of the same place value have the same id in both
    numbers.

        training:  pi(p), where pi is a random permutation of 0 .. L-1 per example, for both sides
        inference: p

    Cho et al. sample only the first id, and the other ids are consecutive. With consecutive ids,
    two distant ids never occur in the same training string, because training strings are too
    short. A longer test string contains pairs of distant ids, and the model confuses some of them.
    With permuted ids, any two ids can occur in the same training string. The permutation is an
    addition of ut_keras.

    Args:
        places: int L, the number of position ids. It must be at least the length of the longest
            segment and of the longest targets, also at inference. Otherwise ids repeat, and the
            model cannot distinguish positions with the same id.
        order: "same" or "reversed".
        separator: int. Id of a token that ends a segment, as EOS does. 0 means that only EOS ends a
            segment.

    Call arguments:
        x: float tensor [B, S, D].
        positions: int tensor, the positions of `x`. The layer uses them only for targets. Default:
            0, …, S - 1.
        position_ids: int32 [B, L], permutations from `sample_position_ids`. The layer uses them
            only in training. By default, the layer samples new permutations.
        ids: int32 [B, S], the token ids of a source. None for targets.

    Returns:
        Tensor like `x`.

    Raises:
        ValueError: if an argument of the constructor has a value that is not allowed above. Also if
            `ids` does not have rank 2.

    References: Cho et al. 2024, Position Coupling; Ruoss et al. 2023, Randomized Positional
        Encodings Boost Length Generalization of Transformers.
    """

    def __init__(self, places: int, order: str = "same", separator: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_least("places", places, 1)
        check_choice("order", order, ("same", "reversed"))
        check_least("separator", separator, 0)
        self.places = places
        self.order = order
        self.separator = separator
        self.seed_generator = keras.random.SeedGenerator()

    def build(self, input_shape: Shape) -> None:
        # The variance is 1, like the variance of the scaled token embeddings.
        self.embedding = self.add_weight(
            name="embedding",
            shape=(self.places, input_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=1.0),
        )

    def call(
        self,
        x: tf.Tensor,
        positions: tf.Tensor | None = None,
        training: bool | None = None,
        position_ids: tf.Tensor | None = None,
        ids: tf.Tensor | None = None,
    ) -> tf.Tensor:
        if ids is not None:
            index = self._source_position_ids(ids)
        else:
            index = timing_signal.positions_or_default(positions, x)
        index %= self.places
        if training:
            batch_size = tf.shape(x)[0]
            position_ids = (
                self.sample_position_ids(batch_size) if position_ids is None else position_ids
            )
            index = tf.gather(position_ids, tf.broadcast_to(index, tf.shape(x)[:2]), batch_dims=1)
        return x + gather.rows(tf.cast(self.embedding, x.dtype), index)

    def sample_position_ids(self, batch_size: tf.Tensor) -> tf.Tensor:
        """Return random permutations of the position ids, int32 [batch_size, L]."""
        seed = seed_lib.per_replica(self.seed_generator)
        return tf.argsort(tf.random.stateless_uniform([batch_size, self.places], seed))

    def _source_position_ids(self, ids):
        """Return the position ids of a source, [B, S]."""
        if ids.shape.rank != 2:
            raise ValueError(
                f"inputs must be [batch, length] for pos='coupled'. Received: {ids.shape}."
            )
        ends = ids == _EOS
        if self.separator:
            ends |= ids == self.separator
        length = tf.shape(ids)[1]
        index = tf.range(length)
        is_before = index < index[:, tf.newaxis]  # [S, S]
        starts = tf.where(ends, index + 1, 0)[:, tf.newaxis]
        begin = tf.reduce_max(tf.where(is_before, starts, 0), axis=-1)
        position_ids = index - begin
        if self.order == "same":
            return position_ids
        # Padding also ends a segment, because the EOS may be missing.
        next_ends = tf.where(ends | (ids == 0), index, length)[:, tf.newaxis]
        end = tf.reduce_min(tf.where(is_before, length, next_ends), axis=-1)
        return tf.where(ends, position_ids, end - 1 - index)


@parts.position_signals.register("coupled")
def _make(hp, side, places=512, order="same", separator=0):
    randomized_position.check_no_step_position_signal(hp)
    dtype = from_hparams.dtype_policy(hp)
    return CoupledPosition(places, order, separator, dtype=dtype)
