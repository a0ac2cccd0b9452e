"""A trained model with its text encoders, as `ut_keras.load` returns it.

    run = ut_keras.load("runs/ende")
    run.translate(["Two dogs are playing."])             ->  ["Zwei Hunde spielen."]
    run.translate("Two dogs are playing.")               ->  "Zwei Hunde spielen."
    run.generate(["Two dogs are playing."], beam_size=2) ->  [[("Zwei …", -0.8), ("2 …", -3.1)]]
    run.observe("Two dogs are playing.").ponder          ->  the number of steps for each word
    run.model, run.encoders                              the Keras model, the text encoders

The folder of a run contains `hparams.json`, `run.json` (with the model's name), `features.json`
with the vocabularies, and a checkpoint. No other file is needed, not even the problem and its data.
"""

from ut_keras.process import silent_tensorflow  # noqa: F401  (before the imports of TensorFlow)

# isort: split
import functools
import itertools
import logging
import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import keras
import numpy as np
import tensorflow as tf

from ut_keras.decoding import batch_plan
from ut_keras.decoding.options import Options, from_keywords
from ut_keras.errors import DataError
from ut_keras.files import file_error
from ut_keras.hparam_schema import limits
from ut_keras.inference import (
    feature_record,
    hub,
    portable,
    predictor,
    run_directory,
    text_model,
    text_rows,
)
from ut_keras.ops import autotuning, compiled
from ut_keras.text import text_encoder_base, text_lines
from ut_keras.text.text_encoder_base import EOS, PAD, TextEncoder
from ut_keras.visualize import observer, step_lens

# The limits of a batch of texts: examples, ids and characters.
_ROWS, _IDS, _CHARACTERS = 64, 8192, 32768

# What to call instead of a method that Keras models have, but a `SavedRun` lacks.
_METHODS_OF_MODELS = {
    "fit": "run.model.fit(run.dataset(pairs)), after run.model.compile()",
    "evaluate": "run.model.evaluate(run.dataset(pairs))",
    "predict": "run.translate(texts), run.generate(texts) or run.classify(texts)",
    "export": "export.export_saved_model(run.model, run.encoders, directory) of ut_keras",
    "compile": "run.model.compile()",
    "summary": "run.model.summary()",
}

_LOG = logging.getLogger("ut_keras")


def load(
    output_dir: str | os.PathLike[str],
    checkpoint_path: str | None = None,
    problem: Any = None,
    data_dir: str | None = None,
) -> "SavedRun":
    """Load a run.

    Args:
        output_dir: str. A folder that ut-trainer, ut-import-t2t, ut-avg-checkpoints or
            `SavedRun.save` wrote, or the address hf://user/name.
        checkpoint_path: str, such as "run/model.ckpt-1000". Default: the newest checkpoint in the
            folder.
        problem: a `Problem`, which is required if the run has no features.json. Optional.
        data_dir: str, the folder with the vocabulary of `problem`.

    Raises:
        DataError: if a file is missing or was not written by ut_keras.
        HParamError, CheckpointError: if the hparams or the weights cannot be used.
    """
    directory = file_error.checked_path(output_dir, "output_dir")
    run_directory.check_arguments(checkpoint_path, problem, data_dir)
    if directory.startswith(hub.PREFIX):
        directory = hub.fetch(directory)
    if portable.exists(directory):
        if checkpoint_path:
            raise DataError(
                f"checkpoint_path must be None for {directory}, which has weights and no "
                f"checkpoints. Received: {checkpoint_path!r}."
            )
        return SavedRun(*portable.load(directory))
    run = run_directory.read(directory, checkpoint_path, problem, data_dir)
    model, _ = run.load_model()
    return SavedRun(model, run.encoders, run.prefixes)


class SavedRun:
    """A model with its text encoders.

    Args:
        model: a model such as a `Transformer`.
        encoders: dict from feature name to `TextEncoder`.
        prefixes: dict from feature name to the prefix that data generation added to its texts. If
            a text lacks the prefix, a warning is logged. Optional.
    """

    def __init__(
        self,
        model: keras.Model,
        encoders: Mapping[str, TextEncoder],
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        self.prefixes = dict(prefixes or {})
        self._set(model, encoders)

    def _set(self, model, encoders):
        """Set the model and its encoders, and remove functions compiled for earlier ones."""
        text_model.check_encoders(model, encoders)
        self._model, self._encoders = model, encoders
        self._predictor = predictor.Predictor(model)
        self._logged: set[str] = set()  # the notes that appear once
        self._has_stories = (
            "inputs" in model.specs and model.specs["inputs"].modality == "sentences"
        )
        self._made_text_model: text_model.TextModel | None = None

    @property
    def model(self) -> Any:
        """The Keras model. A new value must have the vocabulary sizes of the encoders."""
        return self._model

    @model.setter
    def model(self, model: keras.Model) -> None:
        self._set(model, self._encoders)

    @property
    def encoders(self) -> Mapping[str, TextEncoder]:
        """The text encoders. A new value must have the vocabulary sizes of the model."""
        return self._encoders

    @encoders.setter
    def encoders(self, encoders: Mapping[str, TextEncoder]) -> None:
        self._set(self._model, encoders)

    @property
    def _text_model(self):
        """The `TextModel`, whose functions from texts to texts are TensorFlow graphs.

        Only classifiers and models of stories use it. The `TextModel` is created when it is first
        used, because with a large vocabulary its creation takes longer than the creation of the
        rest of this object.
        """
        if self._made_text_model is None:
            with tf.init_scope():  # the first use may be in the graph of a dataset
                self._made_text_model = text_model.TextModel(self.model, self.encoders)
        return self._made_text_model

    @property
    def _classify(self):
        """The compiled function from sources to `DecodedTexts`."""
        functions, key = self.model.compiled_functions.of_decoding(), ("classify", self._text_model)
        if key not in functions:
            classify: Any = self._text_model.classify_ids
            sources: Any = tf.RaggedTensorSpec([None, None], tf.int32)
            if self._has_stories:
                classify, sources = self._text_model.classify, tf.TensorSpec([None], tf.string)
            functions[key] = compiled.function(classify, [sources])
        return functions[key]

    @classmethod
    def of(cls, model: keras.Model, problem: Any, data_dir: str | None = None) -> "SavedRun":
        """Return a `SavedRun` for a model that was trained or loaded with Keras.

            run = SavedRun.of(keras.models.load_model("runs/model.keras"), problem, "runs/data")
            run.translate("3 1 4")

        Args:
            model: a model such as a `Transformer`.
            problem: the `Problem` on which the model was trained. Its text encoders are used.
            data_dir: str, the folder with the vocabulary of `problem`; None if `problem` needs no
                vocabulary file.

        Raises:
            DataError: if the vocabulary is missing, or if the features of the model and of
                `problem` have other names, modalities or vocabulary sizes. The model contains no
                vocabulary. So a wrong vocabulary of the same size is not detected, and the output
                texts are then wrong.
        """
        run_directory.check_arguments(None, problem, data_dir)
        found = getattr(model, "specs", None)
        if found is None:
            raise DataError(f"model must be a model of ut_keras. Received: {model!r}.")
        features = feature_record.from_problem(problem.with_hparams(model.hparams), data_dir)
        expected, received = _sizes(found), _sizes(features.specs)
        if expected != received:
            raise DataError(
                f"problem must have the features of the model, {expected}. "
                f"Received: {received}, of {problem.name}."
            )
        return cls(model, features.encoders, features.prefixes)

    def __getattr__(self, name: str) -> Any:
        """Raise `AttributeError`.

        For a method of Keras models, the message says what to call.

        Python calls `__getattr__` only if the object has no attribute of this name.
        """
        if name in _METHODS_OF_MODELS:
            raise AttributeError(
                f"A {type(self).__name__} has no {name!r}. Use {_METHODS_OF_MODELS[name]}."
            )
        return object.__getattribute__(self, name)  # raises the usual error

    def __reduce__(self) -> tuple:
        """Return the data for pickle: the encoders, and the model.

        The data contains the weights of the model, but no compiled functions.
        """
        return SavedRun, (self.model, self.encoders, self.prefixes)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write config.json, model.safetensors and vocabularies for `ut_keras.load`.

        Args:
            directory: str, a folder that must be empty or must not exist.

        Raises:
            DataError: if the folder is not empty, or an encoder is not a class of ut_keras.
        """
        portable.save(directory, self.model, self.encoders, self.prefixes)

    def push(self, address: str, private: bool | None = None, card: str = "") -> str:
        """Upload the files that `save` writes to the Hugging Face hub, see `hub.push`."""
        return hub.push(address, self, private, card)

    def dataset(
        self,
        pairs: Iterable[Any],
        batch_size: int = 64,
        seed: int | None = None,
        source: str | None = None,
        target: str | None = None,
    ) -> tf.data.Dataset:
        """Return a dataset of texts for the model's `fit` and `evaluate`.

            run.model.compile()
            run.model.fit(run.dataset([("Two dogs.", "Zwei Hunde.")], seed=1), epochs=3)

        Args:
            pairs: iterable of (source, target), of (text, label) for a classifier, or of dicts with
                "inputs" and "targets". It may be a list, a generator, a Hugging Face
                `datasets.Dataset` or a `tf.data.Dataset` of strings.
            batch_size: int >= 1.
            seed: int >= 0. The seed determines the shuffling, which differs in every epoch. None:
                no shuffling.
            source, target: str. The keys of the source and the target, such as "en" and "de", if
                the dicts do not have the keys "inputs" and "targets".

        Returns:
            `tf.data.Dataset` of (features, targets), batches of int32 ids.

        Raises:
            ValueError: if the model has no inputs, or an argument is out of range. `pairs` must
                contain at least one pair, and dicts must have the keys `source` and `target`.
            DataError: if a word is not in the vocabulary.
        """
        if "inputs" not in self.model.specs:
            raise ValueError("dataset requires a model with inputs. Received: a language model.")
        if isinstance(batch_size, Iterable) and not isinstance(batch_size, str):
            raise ValueError(
                "dataset requires the sources and the targets as one list of pairs: "
                "run.dataset(list(zip(sources, targets))). batch_size must be an int of at least "
                f"1. Received: batch_size={reprlib.repr(batch_size)}."
            )
        _check_batches(batch_size, seed)
        sources, targets = text_rows.pairs(pairs, source, target)
        encoder, is_class = self.encoders["targets"], self._predictor.classifies
        if not is_class:
            self._note_texts("targets", targets)
        ids = [encoder.encode(text) for text in targets]
        ids = tf.ragged.constant([i if is_class else [*i, EOS] for i in ids], tf.int32)
        found = tf.data.Dataset.from_tensor_slices((self._sources(sources), ids))
        if seed is not None:
            found = found.shuffle(len(sources), seed=seed)

        def batch(sources, targets):
            targets = targets.to_tensor()
            inputs = self._text_model.ids(sources) if self._has_stories else sources.to_tensor()
            return {"inputs": inputs, "targets": targets}, targets

        return autotuning.disable(found.batch(batch_size).map(batch))

    @overload
    def translate(
        self,
        texts: str,
        beam_size: int = 4,
        alpha: float = 0.6,
        decode_length: int = 100,
        **options: Any,
    ) -> str: ...

    @overload
    def translate(
        self,
        texts: Sequence[str],
        beam_size: int = 4,
        alpha: float = 0.6,
        decode_length: int = 100,
        **options: Any,
    ) -> list[str]: ...

    def translate(
        self,
        texts: Sequence[str],
        beam_size: int = 4,
        alpha: float = 0.6,
        decode_length: int = 100,
        **options: Any,
    ) -> str | list[str]:
        """Return the best output for every source.

        Args:
            texts: list of str; or one str, in which case the result is also one str.
            beam_size, alpha, decode_length, options: options of the search, see `model.generate`.
                Here per_example_length is True by default.

        Raises:
            ValueError: if the model has no inputs, or an option is out of range.
            DataError: if a word is not in the vocabulary.
        """
        if self._predictor.is_language_model:
            raise ValueError(
                "translate requires a model with inputs. Received: a language model. Use generate "
                "to continue a prompt."
            )
        options = {**options, "alpha": alpha, "decode_length": decode_length}
        _check_names(options)
        search = from_keywords({"beam_size": beam_size, **options}, per_example_length=True)
        if isinstance(texts, str):
            return self._generate([texts], search)[0][0][0]
        return [beams[0][0] for beams in self._generate(texts, search)]

    @overload
    def generate(
        self, texts: str, beam_size: int = 1, **options: Any
    ) -> list[tuple[str, float]]: ...

    @overload
    def generate(
        self, texts: Sequence[str], beam_size: int = 1, **options: Any
    ) -> list[list[tuple[str, float]]]: ...

    def generate(
        self, texts: Sequence[str], beam_size: int = 1, **options: Any
    ) -> list[tuple[str, float]] | list[list[tuple[str, float]]]:
        """Return outputs for sources or, for a language model, continuations of prompts.

        Args:
            texts, options: the same as for `translate`.
            beam_size: int. The default is 1, unlike the default 4 of `translate`.

        Returns:
            list with one list of (str, score) per text, sorted from best to worst. If `texts` is
            one str, the result is the list for this text. A classifier gives only the most likely
            class with its log probability.
        """
        _check_names(options)
        search = from_keywords({"beam_size": beam_size, **options}, per_example_length=True)
        if isinstance(texts, str):
            return self._generate([texts], search)[0]
        return self._generate(texts, search)

    def _generate(self, texts: Any, options: Options) -> list[list[tuple[str, float]]]:
        rows = self._rows(texts)
        encoder, is_class = self.encoders["targets"], self.model.class_labels
        to_text = functools.partial(text_encoder_base.to_text, encoder, is_class=is_class)
        numbers = itertools.count()

        def write(batch):
            search = options.of_batch(next(numbers))
            return [
                [
                    (to_text(ids), float(score))
                    for ids, score in zip(decoded.ids, decoded.scores, strict=True)
                ]
                for decoded in self._predictor.outputs([rows[i] for i in batch], search)
            ]

        batches = self._predictor.plan(list(map(len, rows)), options, _IDS, _ROWS)
        return batch_plan.map_batches(batches, write)

    # mypy regards a str as a `Sequence[str]`, so the overload for str overlaps with the next one.
    @overload
    def classify(self, texts: str) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def classify(self, texts: Sequence[str]) -> list[str]: ...

    def classify(self, texts: Sequence[str]) -> str | list[str]:
        """Return the most likely class of every text.

        Args:
            texts: list of str; or one str, in which case the result is also one str. In a story,
                "|" separates the sentences, and the last sentence is the question.
        """
        if isinstance(texts, str):
            return self.classify([texts])[0]
        return [classes[0][0] for classes in self.class_scores(texts)]

    @overload
    def class_scores(  # type: ignore[overload-overlap]
        self, texts: str
    ) -> list[tuple[str, float]]: ...

    @overload
    def class_scores(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]: ...

    def class_scores(
        self, texts: Sequence[str]
    ) -> list[tuple[str, float]] | list[list[tuple[str, float]]]:
        """Return a list of (class, log probability) per text, most likely class first.

        If `texts` is one str, the result is the list for this text.
        """
        if isinstance(texts, str):
            return self.class_scores([texts])[0]
        if not self._predictor.classifies:
            raise ValueError(
                "classify requires a model that predicts class labels. Received: a model that "
                "predicts texts. Use translate or generate."
            )
        texts = text_rows.texts(texts)
        sources = self._sources(texts)

        def classify(batch):
            found = self._classify(tf.gather(sources, batch))
            return [
                [(name.decode("utf-8"), float(score)) for name, score in zip(*row, strict=True)]
                for row in zip(found.texts.numpy(), found.scores.numpy(), strict=True)
            ]

        batches = batch_plan.plan(list(map(len, texts)), _CHARACTERS, _ROWS)
        return batch_plan.map_batches(batches, classify)

    def observe(
        self,
        text: str,
        attention: bool = True,
        steps: bool | None = None,
        replace: step_lens.Replacement | None = None,
    ) -> observer.Observation:
        """Return the attention, the ponder times, the steps and the output for a text.

        Args:
            text: str.
            attention: bool. Whether to record attention. Its size is quadratic in the length of the
                text: see `observer.observe`.
            steps: bool. Whether to record what the model would predict after each step. None: the
                same as `attention`.
            replace: dict. A key is the number of a step; the first step is 1. The value is a state
                [S, D], such as a state of another observation. It replaces the state after this
                step. Optional.

        Returns:
            `Observation` with `.maps` (attention), `.ponder`, `.steps` and `.outputs`. `.ponder`
            and `.steps` are dicts with the keys "encoder" and "decoder". Each value of `.ponder`
            has `labels` and `times`, in steps. Each value of `.steps` is a `step_lens.Steps`.

        Raises:
            ValueError: if an argument is not as described, or if `replace` does not fit the text.
        """
        if not isinstance(attention, bool):
            raise ValueError(f"attention must be True or False. Received: {attention!r}.")
        if not (steps is None or isinstance(steps, bool)):
            raise ValueError(f"steps must be True, False or None. Received: {steps!r}.")
        if not (replace is None or isinstance(replace, Mapping)):
            raise ValueError(f"replace must be a dict or None. Received: {replace!r}.")
        features = {"inputs": tf.constant(batch_plan.pad(self._rows([text])))}
        return observer.observe(
            self.model,
            features,
            self.encoders,
            attention=attention,
            steps=steps,
            replace=replace,
        )

    def _rows(self, texts):
        """Return a list with the ids of each text, [S] or [sentences, words]."""
        texts = text_rows.texts(texts)
        if self._predictor.is_language_model:
            self._note_texts("targets", texts)
            rows = (self.encoders["targets"].encode(text) for text in texts)
            return [[i for i in row if i != PAD] for row in rows]  # a text may contain "<pad>"
        if self._has_stories:
            self._check_stories(texts)
            return [self._text_model.ids(tf.constant([text]))[0].numpy() for text in texts]
        self._note_texts("inputs", texts)
        return [[*self.encoders["inputs"].encode(text), EOS] for text in texts]

    def _note_texts(self, feature, texts):
        """Log a note if texts lack the prefix of training or end with line breaks.

        Each kind of note appears once.
        """
        notes = {
            "line breaks": text_lines.line_break_note(texts, self.encoders[feature].encode),
            f"prefix of {feature}": text_lines.missing_prefix_note(
                texts, feature, self.prefixes.get(feature, "")
            ),
        }
        for kind, note in notes.items():
            if note and kind not in self._logged:
                self._logged.add(kind)
                _LOG.warning(note)

    def _sources(self, texts):
        """Return sources as a `RaggedTensor` of ids [B, (S)].

        Stories are strings [B] instead.
        """
        if self._has_stories:
            self._check_stories(texts)
            return tf.constant(texts, tf.string)
        rows = self._rows(texts)
        ids = np.fromiter(itertools.chain.from_iterable(rows), np.int32)
        lengths = np.array([len(row) for row in rows], np.int64)
        return tf.RaggedTensor.from_row_lengths(ids, lengths, validate=False)

    def _check_stories(self, texts):
        """Raise `DataError` for a word that is not in the vocabulary.

        The graph that encodes stories skips such words without an error. So this method also
        encodes the stories in Python, where an unknown word raises an error.
        """
        for text in texts:
            self.encoders["inputs"].encode(text.replace("|", " "))


def _sizes(specs):
    """Return {feature: (modality, vocabulary size)}."""
    return {name: (specs[name].modality, specs[name].vocab_size) for name in sorted(specs)}


def _check_names(options):
    if {"forced_prefix", "return_steps"} & options.keys():
        raise ValueError(
            "forced_prefix and return_steps are only supported by model.generate, which takes "
            f"ids. Received: {', '.join(options)}."
        )


def _check_batches(batch_size, seed):
    if expected := limits.why_no_int(batch_size, 1):
        raise ValueError(f"batch_size must be {expected}. Received: {batch_size!r}.")
    if seed is not None and (expected := limits.why_no_int(seed, 0, limits.LARGEST_SEED)):
        raise ValueError(f"seed must be {expected}, or None. Received: {seed!r}.")
