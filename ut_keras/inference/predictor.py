"""Computes the outputs of a model from ids: beams, classes or scores.

    predictor = Predictor(model)
    predictor(rows, beam_size=4)            [Decoded, …] for sequences of any length, in Python
    predictor.outputs(rows, options)        the same for an `Options` object
    predictor.scores(targets, sources)      [log probability, …]
    predictor.batch(ids, options)           `Decoded` for one batch, eagerly or in a graph

A model with a decoder generates its outputs by a search. A classifier predicts the most likely
class. An encoder predicts the most likely token at each position, and a Neural GPU predicts these
tokens up to the first EOS. `batch_plan` decides which sequences share a batch. The maximum output
length of a sequence does not depend on its batch, unless per_example_length=False, which is T2T's
behavior.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.decoding import batch_plan, parallel_batch, xla_search
from ut_keras.decoding.beam_search import Decoded
from ut_keras.decoding.options import Options, from_keywords
from ut_keras.ops import compiled, maximum


class Predictor:
    """Functions from ids to the outputs of a model.

    Args:
        model: a `Seq2Seq`, such as a `Transformer`.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model

    # Properties of the model.

    @property
    def is_language_model(self) -> bool:
        """Whether a source is a prompt that the output continues."""
        return self.model.encoder is None

    @property
    def classifies(self) -> bool:
        """Whether a target is a class."""
        return self.model.class_labels

    @property
    def searches(self) -> bool:
        """Whether targets are generated token by token."""
        return not self.model.class_labels and self.model.decoder is not None

    @property
    def scores_targets(self) -> bool:
        """Whether the model gives the log probability of given targets."""
        model = self.model
        return not model.class_labels and (model.decoder is not None or model.writes_in_parallel)

    # Sequences of any length, in Python.

    def __call__(self, rows: Sequence[Any], **options: Any) -> list[Decoded]:
        """Return the outputs for sequences of any length.

        Args:
            rows: list of int arrays [S], or of arrays that all have the shape [sentences, words].
            options: options of the search, see `model.generate`. Here per_example_length is True by
                default. Without a search, only num_steps and exit_threshold have an effect.

        Returns:
            list with one `Decoded` per sequence. It contains arrays: ids [beams, T] and scores
            [beams].
        """
        return self.outputs(rows, from_keywords(options, per_example_length=True))

    def outputs(self, rows: Sequence[Any], options: Options) -> list[Decoded]:
        """Return the outputs for sequences of any length, according to checked `Options`.

        Raises:
            ValueError: if `options.jit_compile` is True and the model has no search.
        """
        if options.jit_compile is True and not self.searches:
            raise ValueError(
                "jit_compile must be False or 'auto' for a model without a search. Received: True."
            )
        numbers = itertools.count()  # the numbers of the batches

        def predict(indices):
            ids = batch_plan.pad([rows[index] for index in indices])
            return self._predict(ids, options.of_batch(next(numbers)))

        return self._in_batches([len(row) for row in rows], predict)

    def plan(
        self, lengths: Sequence[int], options: Options, tokens: int, max_examples: int
    ) -> list[list[int]]:
        """Group sequences into batches for `outputs`.

        Args and return value are those of `batch_plan.plan` and `xla_search.plan`.
        """
        if self.searches:
            return xla_search.plan(self.model, options, lengths, tokens, max_examples)
        same_length = bool(batch_plan.why_equal_lengths(self.model))
        return batch_plan.plan(lengths, tokens, max_examples, same_length)

    def scores(
        self,
        targets: Sequence[Sequence[int]],
        sources: Sequence[Sequence[int]] | None = None,
        **depth: Any,
    ) -> list[float]:
        """Return the log probability of each target.

        Args:
            targets, sources: lists of lists of ids, with EOS. A language model takes no sources.
            depth: num_steps, exit_threshold and jit_compile, see `model.score`.

        Returns:
            list of float32.
        """
        columns = {"targets": targets, **({} if sources is None else {"inputs": sources})}

        def score(indices):
            features = {
                name: tf.constant(batch_plan.pad([rows[i] for i in indices]))
                for name, rows in columns.items()
            }
            return self.model.score(features, **depth).numpy()

        lengths = zip(*([len(row) for row in rows] for rows in columns.values()), strict=True)
        return self._in_batches([*lengths], score, scores=True)

    def _in_batches(self, lengths, function, scores=False):
        """Call `function` with the indices of each batch. Return results in input order."""
        same_length = bool(batch_plan.why_equal_lengths(self.model, scores))
        return batch_plan.map_batches(batch_plan.plan(lengths, same_length=same_length), function)

    def _predict(self, ids, options):
        if self.scores_targets:  # `model.search` is already compiled
            parts = [self.batch(tf.constant(ids), options)]
        else:
            parts = parallel_batch.run(self._compiled_batch(options), tf.constant(ids))
        ids = np.concatenate([part.ids for part in parts])
        scores = np.concatenate([part.scores for part in parts])
        return [Decoded(*row) for row in zip(ids, scores, strict=True)]

    def _compiled_batch(self, options):
        functions = self.model.compiled_functions.of_decoding()
        key = ("predictor", *options.depth.values())
        if key not in functions:
            # Ids of sentences have a third axis: the words of a sentence. Its size is fixed.
            ids = tf.TensorSpec([None, None, *self.model.specs["inputs"].shape[1:]], tf.int32)
            functions[key] = compiled.function(lambda ids: self.batch(ids, options), [ids])
        return functions[key]

    # One batch, eagerly or in a graph.

    def batch(self, ids: tf.Tensor, options: Options) -> Decoded:
        """Return the outputs for one batch.

        Args:
            ids: int32 [B, S] or [B, sentences, words]. If padding changes the outputs, all
                sequences must have one length.
            options: checked `Options`. Without a search, only num_steps and exit_threshold have an
                effect.

        Returns:
            `Decoded`. Its T is 1 for classes, and S for the tokens of an encoder.
        """
        if self.searches:
            decoded: Decoded = self.model.search({"inputs": ids}, options)
            return decoded
        # The model predicts all tokens at once, so options of a search have no effect.
        if self.scores_targets:
            no_search = Options(per_example_length=options.per_example_length, **options.depth)
            written: Decoded = self.model.search({"inputs": ids}, no_search)
            return written
        log_probs = self.log_probs(ids, **options.depth)
        best = maximum.argmax(log_probs)
        scores = tf.reduce_max(log_probs, axis=-1)
        if self.classifies:
            return Decoded(best[:, tf.newaxis, tf.newaxis], scores[:, tf.newaxis])
        return Decoded(best[:, tf.newaxis], tf.reduce_sum(scores, axis=1, keepdims=True))

    def log_probs(self, ids: tf.Tensor, **depth: Any) -> tf.Tensor:
        """Return the log probabilities of classes, or of the tokens at each position.

        Returns:
            float tensor: [B, C] for classes, or [B, S, V] for tokens.
        """
        features = {"inputs": ids, "targets": tf.zeros([tf.shape(ids)[0], 1], tf.int32)}
        output = self.model.forward(features, training=False, **depth)
        return tf.nn.log_softmax(output.logits)
