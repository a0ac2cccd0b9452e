"""The base class of datasets: their name, features, generation and reading.

    raw text --generate_samples--> {"inputs": str, "targets": str} --shuffle, encode_samples-->
      ids + EOS --> <filename>-train-00000-of-00010 --dataset--> batches

To add a dataset, write one file with a subclass of `Problem`:

    @problem.register("my_problem")
    class MyProblem(problem.Problem):
        def feature_encoders(self, data_dir):
            return dict.fromkeys(("inputs", "targets"), text_encoder.ByteTextEncoder())

        def generate_samples(self, split, data_dir, tmp_dir, seed):
            yield {"inputs": "Hello", "targets": "Bonjour"}

Then `problems.get("my_problem")` returns a `MyProblem`, and `--problem=my_problem` selects it. For
text datasets, text_problems.py has base classes with a vocabulary.

This module does not import TensorFlow until data are written or read.
"""

import collections
import copy
import dataclasses
import fnmatch
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ut_keras.data import contract, features, tfrecords
from ut_keras.data.reading import reading_options
from ut_keras.data.writing import generation_plan
from ut_keras.files import file_error
from ut_keras.problems import data_generation, sample_encoding
from ut_keras.problems.registration import REGISTRY as REGISTRY
from ut_keras.problems.registration import declare as declare
from ut_keras.problems.registration import register as register
from ut_keras.process import tensorflow_log
from ut_keras.text import sacre_bleu, text_encoder

Samples: TypeAlias = Iterable[dict[str, Any]]
Texts: TypeAlias = Iterator[dict[str, str]]  # an iterator over samples
Records: TypeAlias = Iterator[dict[str, list[int]]]
Encoders: TypeAlias = dict[str, text_encoder.TextEncoder]
Metrics: TypeAlias = dict[str, features.FeatureMetric]
Specs: TypeAlias = dict[str, features.FeatureSpec]

if TYPE_CHECKING:
    import tensorflow as tf

    from ut_keras.data.reading import indexed_batches
    from ut_keras.data.writing import download

DEFAULT_SEED = 429459  # the default seed of t2t-datagen

# Names of results in the evaluation of every problem. Only some models have "ponder_time".
_COMMON_RESULTS = (
    *("loss", "ponder_time"),
    *("decode/accuracy", "decode/accuracy_per_sequence", "decode/num_samples"),
)
_RESULT_NAMES = "other_results"


class Problem:
    """A dataset of inputs and targets. Subclasses define its features and samples.

    A subclass must define `feature_encoders`, and either `generate_samples` or
    `generate_encoded_samples`. All other members have defaults.

    Attributes:
        name: str. The registered name, which `problems.get` sets.
        splits: tuple of str. The splits that exist: some or all of "train", "dev" and "test".
        num_train_shards: int. Number of files of the train split. Other splits have one file.
        optional_splits: tuple of str. Splits that exist only if the user has files for them. See
            `splits_to_generate`.
        eval_metrics: tuple of str. T2T's names of metrics.
        other_results: tuple of str. Names, or patterns such as "error/*", of all results of
            `feature_metrics`, `summarize` and `score_decoded` (with the prefix "decode/"). If a
            class lists these names, a command rejects an unknown name immediately. Otherwise, the
            command rejects an unknown name only after the first evaluation.
        target_space_id: int. T2T's id of the kind of target text. T2T's models embed this id.
        input_space_id: int. T2T's id of the kind of input text. `NAME_rev` and `NAME_copy` use it,
            because the inputs become their targets.
        class_label_features: tuple of str. Features that contain one class id without EOS.
        max_length: int. Training skips longer examples. None means the limit in the hparams.
        paper: str. The paper and the table that use the dataset, for docs/problems.md.
        licence: str. Licence of the data. By default, it joins the licences of `raw_files`.
        raw_files: tuple of `download.RawFile`. The source files of the data.
        vocabulary_title: str. The name of the user's vocabulary file in messages, if the file in
            data_dir has a different name.
        line_note: str. A note about lines as inputs, such as the form that a line must have.
            `ut-decoder` prints the note when it decodes lines. "" means no note.
        line_mark: str. A text that each line of this form contains. If every line contains it, the
            note is not printed. "" means that the note does not depend on the lines.
        left_out: Counter from a reason to the number of samples that were skipped for this reason.
            `generate_samples` increments the counts, and data generation prints them.
    """

    name: str = ""
    splits: tuple[str, ...] = ("train", "dev")
    optional_splits: tuple[str, ...] = ()
    num_train_shards = 10
    eval_metrics: tuple[str, ...] = (
        "accuracy",
        "accuracy_top5",
        "accuracy_per_sequence",
        "neg_log_perplexity",
    )
    other_results: tuple[str, ...] = ()
    target_space_id = 0
    input_space_id = 0
    class_label_features: tuple[str, ...] = ()
    max_length: int | None = None
    paper = ""
    raw_files: tuple["download.RawFile", ...] = ()
    vocabulary_title = ""
    line_note = ""
    line_mark = ""
    _max_cases: int | None = None  # the maximum number of samples per split in data generation

    # Properties of the dataset.

    def check(self) -> None:
        """Raise DataError if an attribute has a wrong type or range.

        `problems.get` calls this method.
        """
        contract.check(self, contract.PROBLEM_FIELDS)
        contract.check_generate_samples(self)

    @property
    def filename(self) -> str:
        """The beginning of the names of the data files, a str."""
        return self.name

    @property
    def licence(self) -> str:
        return "; ".join(dict.fromkeys(raw.licence for raw in self.raw_files if raw.licence))

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        """Return {"inputs": TextEncoder, "targets": TextEncoder}.

        A language model problem has only "targets".

        Args:
            data_dir: str. Folder of the data and the vocabulary files. The value may be None if the
                encoders need no file.

        Raises:
            DataError: if a vocabulary file is missing.
        """
        raise NotImplementedError

    def feature_specs(self, data_dir: str | None) -> Specs:
        """Return {"inputs": FeatureSpec, "targets": FeatureSpec} for the model."""
        specs = {
            name: features.FeatureSpec(
                encoder.vocab_size, "class_label" if name in self.class_label_features else "symbol"
            )
            for name, encoder in self.checked_encoders(data_dir).items()
        }
        features.check(specs)
        return specs

    def checked_encoders(self, data_dir: str | None) -> Encoders:
        """Check and return the feature encoders."""
        title = f"feature_encoders of {self.name}"
        return contract.validated(self.feature_encoders(data_dir), contract.FEATURE_ENCODERS, title)

    def record_specs(self, data_dir: str | None) -> Specs:
        """Return {feature: FeatureSpec} of the records in the files.

        `preprocess` converts these records to examples.
        """
        return self.feature_specs(data_dir)

    def preprocess(self, records: dict[str, Any]) -> dict[str, Any]:
        """Convert the features of n records to the features of n examples.

        `records` and the return value are dicts of int32 tensors: ragged [n, (length)] or
        [n, (length), ...], or [n, 1] for class labels. The returned dict may also have "weights",
        float [n, 1] or ragged like the targets. The weights multiply the loss and the metrics of
        each target.
        """
        return records

    # Results in addition to `eval_metrics`.

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        """Return {name: FeatureMetric} of metrics that need features or the vocabulary.

        The metrics are computed with teacher forcing. The printed result line omits names with a
        "/".
        """
        return {}

    def summarize(self, results: dict[str, float]) -> dict[str, float]:
        """Return {name: float} with values that are computed from evaluation results.

        An example is the mean of several results.
        """
        return {}

    def score_decoded(
        self, sources: list[str], references: list[str], hypotheses: list[str]
    ) -> dict[str, float]:
        """Return {name: float} with scores of decoded texts.

        The three lists have the same length.
        """
        return {}

    def text_for_bleu(self, text: str) -> str:
        """Return the form of a reference or of a decoded text that BLEU compares.

        A problem whose texts are split into subwords joins them here.
        """
        return text

    def text_prefix(self, name: str) -> str:
        """Return the prefix that data generation adds to each text of the feature `name`."""
        return ""

    def may_measure(self, name: str) -> bool:
        """Return whether evaluations may have a result of this name in `metrics.jsonl`."""
        if name in _COMMON_RESULTS or name.startswith("losses/"):
            return True
        patterns = (*self.eval_metrics, *self.other_results)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return True
        is_decoded = name.startswith("decode/")
        methods = {"score_decoded"} if is_decoded else {"feature_metrics", "summarize"}
        # The first class that defines `other_results` or one of the methods decides. If this class
        # defines a method but not `other_results`, any name is possible.
        defining = (
            vars(c) for c in type(self).__mro__ if vars(c).keys() & {*methods, _RESULT_NAMES}
        )
        return _RESULT_NAMES not in next(defining)

    def feature_languages(self) -> dict[str, str]:
        """Return {"inputs": "en", "targets": "zh"} for translation problems, otherwise {}.

        BLEU's tokenizer depends on the language of the targets.
        """
        return {}

    def check_scores(self) -> None:
        """Raise UsageError if a package that `score_decoded` needs is not installed."""
        if languages := self.feature_languages():
            sacre_bleu.metric(language=languages["targets"])

    # Methods for data generation.

    def side_files(self) -> tuple[str, ...]:
        """Return the names of the additional files in data_dir, such as the vocabulary."""
        return ()

    def side_files_of_samples(self) -> tuple[str, ...]:
        """Return the names of the side files built from at most `max_cases` samples."""
        return self.side_files()

    def user_files(self, split: str, tmp_dir: str | None) -> tuple[str, ...]:
        """Return the paths of raw files that the user may change, such as train.tsv.

        If these files have changed and the data files exist already, data generation prints a note.
        The default for a class of your own: the files in tmp_dir whose names contain the name of
        the split as a word, such as train.txt and pairs.train.csv.

        Args:
            split: str. Only the files on which this split depends are returned.
            tmp_dir: str. Folder of the raw data.

        Returns:
            tuple of str. If the split depends on the absence of a file, the tuple has its path too.
        """
        # The module is None for code that `exec` runs in an empty namespace.
        module = type(self).generate_samples.__module__ or ""
        is_own = not module.startswith("ut_keras.")
        if not is_own or not tmp_dir or not os.path.isdir(tmp_dir):
            return ()
        names = [name for name in os.listdir(tmp_dir) if split in re.split(r"[^A-Za-z]", name)]
        paths = (os.path.join(tmp_dir, name) for name in sorted(names))
        return tuple(path for path in paths if os.path.isfile(path) and os.access(path, os.R_OK))

    def splits_to_generate(self, tmp_dir: str | None) -> tuple[str, ...]:
        """Return the splits whose raw data are available."""
        return self.splits

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        """Check that the raw data exist, and write the side files that are missing."""

    def generate_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterable[dict[str, Any]]:
        """Yield the samples of a split as {"inputs": str, "targets": str}.

        Args:
            split: str. "train", "dev" or "test".
            data_dir: str. Folder of the data files.
            tmp_dir: str. Folder of the raw data.
            seed: int. Calls with the same seed must give the same samples.
        """
        raise NotImplementedError

    def encode_samples(self, samples: Samples, data_dir: str) -> Iterator[Any]:
        """Yield the records {"inputs": [int], "targets": [int]} of samples, with EOS.

        Data generation calls this method once per file. If there are many samples, several
        processes call it. The number of records may differ from the number of samples, for example
        if several samples are packed into one record.
        """
        encoders = self.feature_encoders(data_dir)
        classes = self.class_label_features
        for columns in sample_encoding.encode_in_groups(samples, encoders, classes):
            rows = [ids.to_lists() for ids in columns.values()]
            for values in zip(*rows, strict=True):
                yield dict(zip(columns, values, strict=True))

    def generate_encoded_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterable[Any]:
        """Yield the records of a split.

        If a subclass overrides this method, a single process encodes all samples.
        """
        samples = self.generate_samples(split, data_dir, tmp_dir, seed)
        # The encoders read many samples at once, but one dict may be yielded several times.
        return self.encode_samples(map(copy.copy, samples), data_dir)

    @functools.cached_property
    def left_out(self) -> collections.Counter[str]:
        """The number of samples that `generate_samples` skipped, for each reason."""
        return collections.Counter()

    def num_shards(self, split: str) -> int:
        """Return the number of files of a split."""
        return self.num_train_shards if split == "train" else 1

    def shards_to_generate(self, tmp_dir: str | None) -> dict[str, int]:
        """Return {split: number of files} for the splits to generate now."""
        title = f"splits_to_generate of {self.name}"
        splits = contract.validated(self.splits_to_generate(tmp_dir), contract.SPLITS, title)
        title = f"num_shards of {self.name}"
        return {
            split: contract.validated(self.num_shards(split), contract.SHARDS, title)
            for split in splits
        }

    def generate_data(
        self,
        data_dir: str,
        tmp_dir: str | None = None,
        seed: int = DEFAULT_SEED,
        tasks: Iterable[int] | None = None,
        num_processes: int | None = None,
        max_cases: int | None = None,
    ) -> dict[str, int]:
        """Write the TFRecord files and side files that do not exist yet.

        Args:
            data_dir: str. Folder for the files. The folder is created if necessary.
            tmp_dir: str. Folder of raw data, for problems that need raw data.
            seed: int. Calls with the same seed write the same files.
            tasks: iterable of int. Indices of the files to write, counted from 0 over all splits.
                Other machines can write the other files. None means all files.
            num_processes: int. Number of processes. It has no influence on the files. None means
                one process per processor.
            max_cases: int. Maximum number of samples per split. The first samples are used. None
                means no limit.

        Returns:
            dict from each split with new files to the number of its new examples.

        Raises:
            DataError: if raw data are missing or invalid. Incomplete files are deleted.
        """
        data_dir = file_error.checked_path(data_dir, "data_dir")
        tmp_dir = file_error.optional_path(tmp_dir, "tmp_dir")
        self._max_cases = max_cases
        tasks = None if tasks is None else list(tasks)
        request = data_generation.Request(data_dir, tmp_dir, seed, tasks, num_processes, max_cases)
        return data_generation.generate(self, request)

    def unknown_word_advice(self, data_dir: str, new_side_files: Sequence[str]) -> str:
        """Return advice for the error about a word that is not in the vocabulary, or ""."""
        return ""

    def encoders_of_samples(self, data_dir: str) -> dict[str, Any]:
        """Return {feature: encoder} for samples.

        The result is {} if the problem encodes samples itself.
        """
        return {} if self.encodes_samples_itself else self.feature_encoders(data_dir)

    @property
    def encodes_samples_itself(self) -> bool:
        """Whether a subclass overrides `encode_samples`, and so encodes samples itself."""
        return type(self).encode_samples is not Problem.encode_samples

    @property
    def yields_records(self) -> bool:
        """Whether the subclass overrides `generate_encoded_samples`."""
        return type(self).generate_encoded_samples is not Problem.generate_encoded_samples

    # Methods for reading data.

    def split_files(self, split: str, data_dir: str) -> list[str]:
        """Return the paths of a split's TFRecord files.

        Raises:
            DataError: if a file is missing.
        """
        return tfrecords.find(data_dir, self.filename, split)

    def dataset(
        self,
        split: str,
        data_dir: str,
        hparams: Any,
        num_replicas: int = 1,
        seed: int | None = None,
        static_shapes: bool = False,
    ) -> "tf.data.Dataset":
        """Return one pass over a split in batches.

        Args:
            split: str. "train", "dev" or "test". The train split is shuffled, and its examples
                longer than `max_length` are skipped.
            data_dir: str. The folder that `generate_data` wrote.
            hparams: the hparams, which set the size of the batches (see `InputSettings`).
            num_replicas: int. The factor by which the batches are enlarged.
            seed: int. Seed of shuffling. None means a random seed.
            static_shapes: bool. Whether to pad each batch to the largest length of its bucket (see
                `InputSettings`).

        Returns:
            A `tf.data.Dataset` of (features, targets). All values are int32 and padded with 0. The
            shapes are features["inputs"] [B, S] and features["targets"] [B, T], and the second
            element repeats the targets. If `preprocess` returns weights, they are the third
            element, float32 [B, 1] or [B, T].

        Raises:
            DataError: if data are missing or no example remains.
        """
        return _batches(
            self, split, data_dir, hparams, num_replicas, seed, static_shapes=static_shapes
        ).one_pass()

    def training_batches(
        self,
        data_dir: str,
        hparams: Any,
        seed_of_epoch: Callable[[int], int],
        num_replicas: int = 1,
        static_shapes: bool = False,
        most_shapes: int = 0,
    ) -> "indexed_batches.IndexedBatches":
        """Return the batches of all epochs of the train split, for the trainer.

        The trainer can start reading at any batch of any epoch, so a stopped run resumes with the
        next batch. Epoch n has the same batches as `dataset` with the seed `seed_of_epoch(n)`.

        Args:
            data_dir: str. The folder that `generate_data` wrote.
            hparams: the hparams, which set the size of the batches (see `InputSettings`).
            seed_of_epoch: function that takes the number of an epoch and returns an int, the seed
                of the shuffling in this epoch.
            num_replicas: int. The factor by which the batches are enlarged.
            static_shapes: bool. Whether to pad each batch to the largest length of its bucket (see
                `InputSettings`).
            most_shapes: int. If positive, the largest number of static shapes (see
                `InputSettings`).

        Raises:
            DataError: if data are missing or no example remains.
        """
        return _batches(
            self,
            "train",
            data_dir,
            hparams,
            num_replicas,
            seed_of_epoch,
            static_shapes=static_shapes,
            most_shapes=most_shapes,
        )

    @property
    def has_own_dataset(self) -> bool:
        """Whether a subclass overrides `dataset`.

        In this case, the trainer calls `dataset` for each epoch.
        """
        return type(self).dataset is not Problem.dataset

    def with_hparams(self, hparams: Any, split: str | None = None) -> "Problem":
        """Return the problem for a run with the given hparams.

        If the features of a problem depend on hparams, the problem overrides this method and
        returns a changed copy. The default returns `self`.

        Args:
            hparams: the hparams of the run.
            split: str. If given, `max_length` and `preprocess` of the return value apply to this
                split.

        Raises:
            DataError: if the problem cannot be read with these hparams.
        """
        return self

    def for_decoding(self) -> "Problem":
        """Return the problem whose `dataset` reads examples for decoding.

        The default returns `self`. The problem of a package returns another problem if the package
        preprocesses examples for decoding differently.
        """
        return self

    def set_direction(self, reverse: bool, copy: bool) -> None:
        """Note that this problem is the base of `NAME_rev`, `NAME_copy` or both.

        The default does nothing. `reversal.Derived` exchanges and copies the features.
        """

    def check_counts(self, split: str, data_dir: str, counts: Sequence[int]) -> None:
        """Check the files of `split_files` against the values that data generation stored.

        Each file must have as many records as were generated. The vocabulary and the other side
        files must be those with which the records were made. Files without stored values, such as
        the files that T2T writes, are not checked.

        Args:
            split: str. The split.
            data_dir: str. Folder of the data.
            counts: list of int. The number of records in each file.

        Raises:
            DataError: if the number of records in a file, or a side file, is different.
        """
        is_one_each = type(self).encode_samples is Problem.encode_samples
        files = self.split_files(split, data_dir)
        generation_plan.check_counts(files, counts, is_one_each)
        generation_plan.check_side_files(data_dir, self.filename, [split], self.side_files())

    def reading(self, split: str, data_dir: str, hparams: Any) -> reading_options.ReadingOptions:
        """Return the options with which `input_pipeline.make_batches` converts records."""
        return reading_options.ReadingOptions(
            preprocess=self.preprocess, lengths_vary=self.preprocess_needs_hparams
        )

    @property
    def preprocess_needs_hparams(self) -> bool:
        """Whether `preprocess` requires the result of `with_hparams`."""
        return False

    @property
    def preprocess_key(self) -> str:
        """A text that identifies the settings that affect lengths after `preprocess`."""
        return ""


def _batches(problem, split, data_dir, hparams, num_replicas, seed, **other_settings):
    """Return the `IndexedBatches` of a split.

    Args:
        seed: None, an int, or a function from the number of an epoch to an int.
        other_settings: the fields of `InputSettings` that are not hparams.
    """
    data_dir = file_error.optional_path(data_dir, "data_dir")
    # These calls can raise errors. The import of TensorFlow takes seconds, so it comes later.
    reader = problem.with_hparams(hparams, split)
    files = reader.split_files(split, data_dir)
    specs = reader.record_specs(data_dir)

    tensorflow_log.load()
    from ut_keras.data.reading import input_pipeline

    settings = input_pipeline.InputSettings.from_hparams(hparams)
    max_length = reader.max_length or settings.max_length
    return input_pipeline.make_batches(
        files,
        specs,
        dataclasses.replace(settings, max_length=max_length, **other_settings),
        training=split == "train",
        num_replicas=num_replicas,
        seed=seed,
        options=dataclasses.replace(
            reader.reading(split, data_dir, hparams),
            check_counts=functools.partial(reader.check_counts, split, data_dir),
        ),
    )
