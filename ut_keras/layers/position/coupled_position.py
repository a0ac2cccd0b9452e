"""Coupled positions: symbols that belong together have one place, on both sides of a model."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.basic.layer import PositionWise, check_choice, check_least
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.position import randomized_position
from ut_keras.ops import seed as seed_lib

_EOS = 1  # as T2T has it


@keras.saving.register_keras_serializable(package="ut_keras")
class CoupledPosition(PositionWise):
    """Adds a learned vector of the place that a source and what is written of it share
    (`pos="coupled"`).

        x_i + table[p_i]

        targets:   p_i = i
        source:    p_i = i - b, b where the stretch that i is in begins; with order="reversed"
                   backwards in it. A stretch ends with `separator` or EOS, whose p is its length.

    So what is copied, or reversed, has the place where it is written, and digits of one value have
    one place in both numbers of a sum.

        training:  pi(p), pi a permutation of 0 .. L-1 that is drawn for a row, for both sides
        inference: p

    Cho et al. draw where the places begin, and leave them in a row. Then places far from each other
    meet for the first time in strings longer than all that were trained, where some are taken for
    one another; of permuted places, any two have met. That is ours.

    Args:
        places: int L, at least the longest stretch, in inference too: of a longer one places come
            again, and what shares one cannot be told apart.
        order: "same" or "reversed".
        separator: int. The id of a symbol that ends a stretch as EOS does; 0 for none.
    Call arguments:
        x: float tensor [B, S, D].
        positions: int tensor, which positions they are; 0 .. S-1 by default. Optional.
        places: int32 [B, L], from `sample_position_ids`; drawn in training without.
        ids: int32 [B, S], of a source. None of targets.
    Returns:
        Tensor like `x`.
    Raises:
        ValueError: if places < 1 or separator < 0, for another order, or a source of sentences.
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
        # As strong as embeddings, which are scaled to variance 1.
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
        elif positions is not None:
            index = positions
        else:
            index = tf.range(tf.shape(x)[1])[tf.newaxis]
        index %= self.places
        if training:
            batch_size = tf.shape(x)[0]
            position_ids = (
                self.sample_position_ids(batch_size) if position_ids is None else position_ids
            )
            index = tf.gather(position_ids, tf.broadcast_to(index, tf.shape(x)[:2]), batch_dims=1)
        return x + tf.gather(tf.cast(self.embedding, x.dtype), index)

    def sample_position_ids(self, batch_size: tf.Tensor) -> tf.Tensor:
        """int32 [rows, L], permutations."""
        seed = seed_lib.per_replica(self.seed_generator)
        return tf.argsort(tf.random.stateless_uniform([batch_size, self.places], seed))

    def _source_position_ids(self, ids):
        """Places of a source: [B, S]."""
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
        # Padding ends a stretch, too, which may lack its EOS.
        next_ends = tf.where(ends | (ids == 0), index, length)[:, tf.newaxis]
        end = tf.reduce_min(tf.where(is_before, length, next_ends), axis=-1)
        return tf.where(ends, position_ids, end - 1 - index)


@parts.position_signals.register("coupled")
def _make(hp, side, places=512, order="same", separator=0):
    randomized_position.check_no_step_position_signal(hp)
    dtype = from_hparams.dtype_policy(hp)
    return CoupledPosition(places, order, separator, dtype=dtype)
