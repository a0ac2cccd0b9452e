"""Ids to what a model makes of them: beams, classes and scores, for everything that answers.

    predictor = Predictor(model)
    predictor(rows, beam_size=4)            [Decoded, …] of rows of any length, in Python
    predictor.scores(targets, sources)      [log probability, …]
    predictor.generate(ids, beam_size=4)    `Decoded` of one batch, in a graph, too

A search where the model writes; else the likeliest class, or the likeliest symbol at each position.
Rows share a batch as `padding` says, and each may be written on as far as it may alone, unless
per_example_length=False asks for T2T's way.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.decoding import parallel_batch
from ut_keras.decoding.beam_search import Decoded
from ut_keras.decoding.options import Options, current_names
from ut_keras.inference import padding


class Predictor:
    """Functions of ids.

    Args:
        model: with `generate`, `score`, `forward` and what says of them how, as `Transformer` has.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self._compiled: dict = {}  # by depth

    # What a model can do.

    @property
    def is_language_model(self) -> bool:
        """Whether a source is a prompt, and what is written goes on from there."""
        return self.model.encoder is None

    @property
    def classifies(self) -> bool:
        """Whether a target is one of some classes."""
        return self.model.class_labels

    @property
    def searches(self) -> bool:
        """Whether targets are written symbol by symbol."""
        return not self.model.class_labels and self.model.decoder is not None

    # Rows of any length, in Python.

    def __call__(self, rows: Sequence[Any], **options: Any) -> list[Decoded]:
        """Writes, or classifies.

        Args:
            rows: list of int arrays [S], or all of one shape [sentences, words].
            options: of a search, see `model.generate`; here per_example_length is True by default.
                Without a search num_steps and exit_threshold count.
        Returns:
            list of `Decoded` of arrays: ids [beams, T] and scores [beams] of each row.
        """
        options = current_names(options)
        return self._map_groups(
            [len(row) for row in rows],
            lambda indices: self._predict_batch(padding.pad([rows[i] for i in indices]), options),
        )

    def scores(
        self,
        targets: Sequence[Sequence[int]],
        sources: Sequence[Sequence[int]] | None = None,
        **depth: Any,
    ) -> list[float]:
        """How likely given targets are.

        Args:
            targets, sources: lists of lists of ids, with EOS; no sources for a language model.
            depth: num_steps and exit_threshold, of `model.forward`.
        Returns:
            list of float32: log probability of each target.
        """
        columns = {"targets": targets, **({} if sources is None else {"inputs": sources})}

        def score(indices):
            features = {
                name: tf.constant(padding.pad([rows[i] for i in indices]))
                for name, rows in columns.items()
            }
            return self.model.score(features, **depth).numpy()

        lengths = zip(*([len(row) for row in rows] for rows in columns.values()), strict=True)
        return self._map_groups(lengths, score, scores=True)

    def _map_groups(self, lengths, function, scores=False):
        """What a function of indices gives for all of them, in their order."""
        reason = padding.why_equal_lengths(self.model, scores)
        groups: dict[Any, list[int]] = {}
        for index, length in enumerate(lengths):
            groups.setdefault(length if reason else 0, []).append(index)
        return padding.map_batches(groups.values(), function)

    def _predict_batch(self, ids, options):
        if self.searches:  # `model.generate` is compiled already
            parts = [self.generate(tf.constant(ids), **options)]
        else:
            parts = parallel_batch.run(self._compiled_generate(options), tf.constant(ids))
        ids = np.concatenate([part.ids for part in parts])
        scores = np.concatenate([part.scores for part in parts])
        return [Decoded(*row) for row in zip(ids, scores, strict=True)]

    def _compiled_generate(self, options):
        depth = _depth(options)
        key = tuple(depth.values())
        if key not in self._compiled:
            # Sentences have a fixed number of words.
            ids = tf.TensorSpec([None, None, *self.model.specs["inputs"].shape[1:]], tf.int32)
            self._compiled[key] = tf.function(
                lambda ids: self.generate(ids, **depth), input_signature=[ids], autograph=False
            )
        return self._compiled[key]

    # One batch, eagerly or in a graph.

    def generate(self, ids: tf.Tensor, **options: Any) -> Decoded:
        """Writes, or classifies.

        Args:
            ids: int32 [B, S], or [B, sentences, words]; of one length where padding matters.
            options: of a search, as above.
        Returns:
            `Decoded`; T is 1 for classes, S for an encoder's symbols.
        """
        options = current_names(options)
        if self.searches:
            decoded: Decoded = self.model.generate(
                {"inputs": ids}, **{"per_example_length": True, **options}
            )
            return decoded
        log_probs = self.log_probs(ids, **_depth(options))
        best = tf.argmax(log_probs, axis=-1, output_type=tf.int32)
        scores = tf.reduce_max(log_probs, axis=-1)
        if self.classifies:
            return Decoded(best[:, tf.newaxis, tf.newaxis], scores[:, tf.newaxis])
        return Decoded(best[:, tf.newaxis], tf.reduce_sum(scores, axis=1, keepdims=True))

    def log_probs(self, ids: tf.Tensor, **depth: Any) -> tf.Tensor:
        """[B, C], or [B, S, V]; a model that has a decoder gives the class at one position."""
        features = {"inputs": ids, "targets": tf.zeros([tf.shape(ids)[0], 1], tf.int32)}
        output = self.model.forward(features, training=False, **depth)
        return tf.nn.log_softmax(output.logits)


def _depth(options):
    """How deep a pass without a search goes; the other options of a search are checked, too."""
    parsed = Options(**options)
    parsed.check()
    return parsed.depth
