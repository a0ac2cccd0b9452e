"""Maps texts to texts in TensorFlow, with a model and its text encoders.

    texts ─ encode, EOS, pad ─ ids ─ search ─ ids ─ cut at EOS, decode ─ texts

Exports and `ut_keras.load` use this module. Texts may have any length, be empty or be invalid
UTF-8. A batch may also be empty.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.decoding import batch_plan, batch_seed
from ut_keras.decoding.beam_search import Decoded
from ut_keras.decoding.options import Options
from ut_keras.hparam_schema import limits
from ut_keras.inference.predictor import Predictor
from ut_keras.models.seq2seq import StepInputs
from ut_keras.text import text_encoder_op
from ut_keras.text.text_encoder_base import EOS, PAD, TextEncoder, cut_at_eos_in_graph

_BETWEEN_SENTENCES = r"[|\r\n]+"


def check_encoders(model: keras.Model, encoders: Mapping[str, TextEncoder]) -> None:
    """Check that each feature of a model has an encoder with its vocabulary size.

    Raises:
        ValueError: if an encoder is missing or has another vocabulary size.
    """
    for name, spec in model.specs.items():
        size = encoders[name].vocab_size if name in encoders else "no encoder"
        if size != spec.vocab_size:
            raise ValueError(
                f"The encoder of {name} must have the vocabulary size of the model, "
                f"{spec.vocab_size}. Received: {size}."
            )


class DecodedTexts(NamedTuple):
    """The output texts of each example, from best to worst: beams or all classes."""

    texts: tf.Tensor  # string [B, beams]
    scores: tf.Tensor  # float32 [B, beams]


class EncodedTexts(NamedTuple):
    """Encoded sources."""

    ids: tf.Tensor  # int32 [B, S], 0 = padding; stories: [B, sentences, words]
    # float32 [B, S, D], the output of the encoder; None if the model has none
    states: tf.Tensor | None


class TextModel:
    """Functions from texts to outputs, which run eagerly or in a traced graph.

    Args:
        model: a model such as a `Transformer`.
        encoders: dict from feature name to `TextEncoder`, as `problem.feature_encoders` returns it.
        max_input_length: int. Sources are truncated to this number of ids, EOS included. 0: no
            limit. It must be 0 if the inputs have the modality `sentences`, because their
            size is fixed.

    Raises:
        ValueError: if an encoder is missing, does not fit the model or cannot run in a graph. Also
            if max_input_length is invalid.
    """

    def __init__(
        self, model: keras.Model, encoders: Mapping[str, TextEncoder], max_input_length: int = 0
    ) -> None:
        check_encoders(model, encoders)
        if expected := limits.why_no_int(max_input_length, 0):
            raise ValueError(
                f"max_input_length must be {expected}. Received: {max_input_length!r}."
            )
        is_story = "inputs" in model.specs and model.specs["inputs"].modality == "sentences"
        if max_input_length and is_story:
            raise ValueError(
                "max_input_length must be 0 for stories, whose size is fixed by the training. "
                f"Received: {max_input_length}."
            )
        self.model = model
        self.predictor = Predictor(model)
        self.max_input_length = max_input_length
        ops = {id(encoders[name]): text_encoder_op.make(encoders[name]) for name in model.specs}
        self.encoder_ops = {name: ops[id(encoders[name])] for name in model.specs}

    # Functions that take and return texts.

    def generate(self, texts: tf.Tensor, options: Options) -> DecodedTexts:
        """Return outputs for sources or, for a language model, continuations of prompts.

        Args:
            texts: string [B].
            options: checked `Options`.

        Returns:
            `DecodedTexts`: the beams of a search, the most likely class of a classifier, or the
            most likely token at each position of an encoder.
        """
        if self.predictor.classifies:
            found = self.classify(texts, **options.depth)
            return DecodedTexts(found.texts[:, :1], found.scores[:, :1])

        def search(ids, indices):
            decoded = self.generate_ids(ids, _options_of_group(options, indices))
            shape = tf.shape(decoded.ids)  # [B, beams, T]
            rows = cut_at_eos_in_graph(tf.reshape(decoded.ids, [-1, shape[2]]))
            return DecodedTexts(
                tf.reshape(self.encoder_ops["targets"].decode(rows), shape[:2]), decoded.scores
            )

        beams = options.beam_size if self.predictor.searches else 1
        return self._map_groups(self._sources(texts), search, beams)

    def generate_ids(self, ids: tf.Tensor, options: Options) -> Decoded:
        """Return the outputs for a batch of ids, as `Predictor.batch` does."""
        if options.seed is None and options.temperature:
            # The graph must sample the seed. A seed from Python would be a constant of the trace.
            # `tf.random.uniform` would store the seed of `keras.utils.set_random_seed` in an
            # export. Then every process that loads the export would write the same texts.
            seed: Any = tf.raw_ops.RandomUniformInt(
                shape=tf.constant([], tf.int32), minval=0, maxval=tf.int32.max
            )
            options = dataclasses.replace(options, seed=seed)
        return self.predictor.batch(ids, options)

    def classify(self, texts: tf.Tensor, **depth: Any) -> DecodedTexts:
        """Return all classes of texts string [B], sorted from most to least likely.

        In this class, `depth` stands for num_steps and exit_threshold, see `model.forward`.
        """
        return self.classify_ids(self._sources(texts), **depth)

    def classify_ids(self, sources: tf.Tensor | tf.RaggedTensor, **depth: Any) -> DecodedTexts:
        """Return all classes of sources, sorted from most to least likely.

        Args:
            sources: ids with EOS, a `RaggedTensor` int32 [B, (S)]; stories: [B, sentences, words].
            depth: num_steps and exit_threshold.
        """
        number = self.model.specs["targets"].vocab_size
        names = self.encoder_ops["targets"].decode(
            tf.RaggedTensor.from_row_lengths(tf.range(number), tf.ones([number], tf.int32))
        )

        def classify(ids, _):
            log_probs = self.predictor.log_probs(ids, **depth)
            scores, order = tf.math.top_k(log_probs, number)
            return DecodedTexts(tf.gather(names, order), scores)

        return self._map_groups(sources, classify, number)

    def score(
        self, targets: tf.Tensor, sources: tf.Tensor | None = None, **depth: Any
    ) -> tf.Tensor:
        """Return the log probability of each target with its EOS, float32 [B].

        Args:
            targets, sources: string [B]. A language model takes no sources.
            depth: num_steps and exit_threshold.
        """
        if sources is not None:
            sizes = tf.size(sources), tf.size(targets)
            message = "inputs and targets must have the same number of texts. Received:"
            check = tf.debugging.Assert(sizes[0] == sizes[1], [message, *sizes])
            with tf.control_dependencies([check]):
                targets = tf.identity(targets)
        rows = {"targets": self._with_eos(self.encoder_ops["targets"].encode(targets))}
        if sources is not None:
            rows["inputs"] = self._sources(sources)
        lengths = [row.row_lengths() for row in rows.values() if isinstance(row, tf.RaggedTensor)]
        keys = tf.zeros_like(lengths[0])
        if batch_plan.why_equal_lengths(self.model, scores=True):
            longest = tf.reduce_max(tf.concat([*lengths, [0]], axis=0)) + 1
            for length in lengths:
                keys = keys * longest + length

        def score(indices):
            ids = {name: batch_plan.to_dense(tf.gather(row, indices)) for name, row in rows.items()}
            return (self.model.score(ids, **depth),)

        return batch_plan.map_groups(keys, score, (tf.zeros(tf.shape(targets)),))[0]

    def ids(self, texts: tf.Tensor) -> tf.Tensor:
        """Return the ids of sources string [B]: int32 [B, S].

        The ids of stories are int32 [B, sentences, words].
        """
        return batch_plan.to_dense(self._sources(texts))

    def encode(self, texts: tf.Tensor, **depth: Any) -> EncodedTexts:
        """Return the `EncodedTexts` of sources string [B].

        The states of a text do not depend on the other texts in its batch.
        """
        sources = self._sources(texts)
        ids = batch_plan.to_dense(sources)
        if self.predictor.is_language_model:
            return EncodedTexts(ids, None)
        # The batch may be empty, so one example is added and then removed.
        padded = tf.pad(ids, [[0, 1]] + [[0, 0]] * (len(ids.shape) - 1))
        states = self._states(padded, depth)[:-1]
        if self.model.why_source_padding_matters and isinstance(sources, tf.RaggedTensor):
            zeros = tf.zeros([*tf.unstack(tf.shape(ids)[:2]), states.shape[-1]])
            states = self._states_by_length(sources, zeros, depth)
        return EncodedTexts(ids, states)

    def _states(self, ids, depth):
        """Return the output of the encoder, float32 [B, S, D]."""
        encoded = self.model.encode({"inputs": ids}, StepInputs(**depth))
        return tf.cast(encoded.stack.output, tf.float32)

    def _states_by_length(self, sources, states, depth):
        """Return the encoder's output, computed for the sources of one length at a time.

        Args:
            sources: ragged ids, int32 [B, (S)].
            states: zeros [B, S, D], which remain at the positions of padding.
            depth: dict, num_steps and exit_threshold.
        """

        def encode(indices):
            group = self._states(batch_plan.to_dense(tf.gather(sources, indices)), depth)
            missing = tf.shape(states)[1] - tf.shape(group)[1]
            return (tf.pad(group, [[0, 0], [0, missing], [0, 0]]),)

        return batch_plan.map_groups(sources.row_lengths(), encode, (states,))[0]

    # Helper functions.

    def _sources(self, texts):
        """Return ids as a `RaggedTensor` int32 [B, (S)], or the `_sentences` of stories."""
        if self.predictor.is_language_model:
            ids = self.encoder_ops["targets"].encode(texts)
            ids = tf.ragged.boolean_mask(ids, ids != PAD)  # a text may contain "<pad>"
            return ids[:, -self.max_input_length :] if self.max_input_length else ids
        if self.model.specs["inputs"].modality == "sentences":
            return self._sentences(texts)
        ids = self.encoder_ops["inputs"].encode(texts)
        if self.max_input_length:
            ids = ids[:, : self.max_input_length - 1]
        return self._with_eos(ids)

    def _with_eos(self, ids):
        return tf.concat([ids, tf.fill([ids.nrows(), 1], EOS)], axis=1)

    def _sentences(self, texts):
        """Return stories in the same form as in training: int32 [B, sentences, words].

        The question is the last sentence. With `trim_stories`, the question follows the story
        directly and the result is ragged. Otherwise, empty sentences separate the story from the
        question, which is in the last row.
        """
        rows, words = self.model.specs["inputs"].shape
        texts = tf.strings.regex_replace(
            tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"), _BETWEEN_SENTENCES, "\n"
        )
        sentences = tf.strings.split(texts, "\n")
        sentences = tf.ragged.boolean_mask(sentences, tf.strings.strip(sentences) != "")
        ids = self.encoder_ops["inputs"].encode(sentences.flat_values)
        ids = ids.to_tensor(PAD, shape=[None, words])
        ids = tf.RaggedTensor.from_row_splits(ids, sentences.row_splits)
        if self.model.hparams.trim_stories:
            missing = tf.cast(ids.row_lengths() == 0, tf.int64)  # an empty story gets one sentence
            blank = tf.zeros([tf.reduce_sum(missing), words], ids.dtype)
            blank = tf.RaggedTensor.from_row_lengths(blank, missing)
            return tf.concat([ids[:, -rows:], blank], axis=1)
        story = ids[:, :-1][:, -(rows - 1) :].to_tensor(PAD, shape=[None, rows - 1, words])
        question = ids[:, -1:].to_tensor(PAD, shape=[None, 1, words])
        return tf.concat([story, question], axis=1)

    def _map_groups(self, rows, function, beams):
        """Call a function (ids [n, S], indices [n]) -> `DecodedTexts` on groups.

        A group is a part of the examples. If `batch_plan` requires equal lengths within a batch,
        this method calls the function once per length. Otherwise it calls the function once.
        """
        is_ragged = isinstance(rows, tf.RaggedTensor)
        number = rows.nrows(tf.int32) if is_ragged else tf.shape(rows)[0]
        keys = tf.zeros([number], tf.int64)
        if is_ragged and batch_plan.why_equal_lengths(self.model):
            keys = rows.row_lengths()
        empty = DecodedTexts(tf.fill([number, beams], ""), tf.zeros([number, beams]))

        def run_group(indices):
            return function(batch_plan.to_dense(tf.gather(rows, indices)), indices)

        return DecodedTexts(*batch_plan.map_groups(keys, run_group, empty))


def _options_of_group(options, indices):
    """Return the options of a group of examples, with another seed for each group."""
    if options.seed is None or not options.temperature:
        return options
    seed = batch_seed.of_group(tf.cast(options.seed, tf.int64), tf.cast(indices[0], tf.int64))
    return dataclasses.replace(options, seed=seed)
