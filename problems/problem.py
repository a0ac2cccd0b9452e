"""What a dataset is: a name, its features, how to generate it, how to read it.

    raw text --generate_samples--> {"inputs": str, "targets": str} --shuffled, encode_samples-->
      ids + EOS --> <filename>-train-00000-of-00010 --dataset--> batches

A new dataset is one file that subclasses `Problem`:

    @problem.register("my_problem")
    class MyProblem(problem.Problem):
        def feature_encoders(self, data_dir): ...
        def generate_samples(self, split, data_dir, tmp_dir, seed): ...

No TensorFlow is loaded before data are written or read.
"""

import collections
import dataclasses
import fnmatch
import functools
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ut_keras import registry
from ut_keras.data import contract, features, tfrecords
from ut_keras.data.writing import example_batch, generation, generation_plan
from ut_keras.errors import DataError
from ut_keras.text import sacre_bleu, text_encoder, word_vocabulary

P = TypeVar("P", bound="Problem")
Samples: TypeAlias = Iterable[dict[str, Any]]
Texts: TypeAlias = Iterator[dict[str, str]]  # samples
Records: TypeAlias = Iterator[dict[str, list[int]]]
Encoders: TypeAlias = dict[str, text_encoder.TextEncoder]
Metrics: TypeAlias = dict[str, features.FeatureMetric]
Specs: TypeAlias = dict[str, features.FeatureSpec]

if TYPE_CHECKING:
    import tensorflow as tf

    from ut_keras.data.writing import download

REGISTRY = registry.Registry("problem")
DEFAULT_SEED = 429459  # t2t-datagen's
_ENCODING_GROUP_SIZE = 8192  # examples; many are encoded much faster than one


# What T2T's problems say of their splits, and nothing here would read.
_T2T_SPLIT_ATTRIBUTES = ("dataset_splits", "is_generate_per_split")


def register(name: str) -> Callable[[type[P]], type[P]]:
    """Decorator that files a `Problem` subclass under `name`.

    Raises:
        ValueError: if the name is taken.
        DataError: if the class says its splits as T2T's do: its one call would make every split of
            the same samples.
    """

    def decorator(problem_class):
        for attribute in _T2T_SPLIT_ATTRIBUTES:
            if hasattr(problem_class, attribute):
                raise DataError(
                    f"{problem_class.__name__} must describe its splits with splits and "
                    "num_train_shards and yield each split in a separate call; or it must derive "
                    "from tensor2tensor.data_generators.text_problems, see docs/t2t_package.md. "
                    f"Received: {attribute}, an attribute of T2T that has no effect here."
                )
        return REGISTRY.register(name)(problem_class)

    return decorator


def declare(name: str, *bases: type, **attributes: Any) -> Any:
    """Makes a class of bases and attributes, files it under `name`, and returns it.

    It is in the module of the last base, `rte_characters` as `RteCharacters`, where other processes
    find it.
    """
    module = bases[-1].__module__
    class_name = "".join(word.capitalize() for word in name.split("_"))
    made = type(class_name, bases, {**attributes, "__module__": module})
    setattr(sys.modules[module], class_name, made)
    return register(name)(made)


# Of an evaluation of any problem; "ponder_time" depends on the model.
_COMMON_RESULTS = (
    *("loss", "ponder_time"),
    *("decode/accuracy", "decode/accuracy_per_sequence", "decode/num_samples"),
)
_RESULT_NAMES = "other_results"


class Problem:
    """A dataset of (inputs, targets).

    Attributes:
        name: str. What it is registered as; set by `problems.get`.
        splits: tuple of str, those of "train", "dev" and "test" that there are.
        num_train_shards: int. Files that the train split is written to; the others get one.
        eval_metrics: tuple of str, T2T's names of metrics.
        other_results: tuple of str. Names, or patterns such as "error/*", of the results of
            `feature_metrics`, `summarize` and, after "decode/", `score_decoded`. With them a
            command rejects another name at once; without them only after an evaluation.
        target_space_id: int. T2T's id of the kind of target, which its models embed.
        input_space_id: int. That of the inputs, which are targets in `NAME_rev` and `NAME_copy`.
        class_label_features: tuple of str. The features that hold one class id, without EOS.
        max_length: int. Training drops longer examples; None leaves it to the hparams.
        paper: str. The paper and the table that it serves, for docs/problems.md.
        licence: str. What the data may be used for; of `raw_files`, what those say.
        raw_files: tuple of `download.RawFile`, what it is made of.
    """

    name: str = ""
    splits: tuple[str, ...] = ("train", "dev")
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
    vocabulary_title = ""  # the user's file of words, where it has another name in data_dir
    _max_cases: int | None = None  # of the samples of a split, while data are generated

    # What a dataset says about itself.

    def check(self) -> None:
        """Raises DataError if something of it is of a wrong type or range; `problems.get` asks."""
        contract.check(self, contract.PROBLEM_FIELDS)

    @property
    def filename(self) -> str:
        """str. What the names of its files begin with."""
        return self.name

    @property
    def licence(self) -> str:
        return "; ".join(dict.fromkeys(raw.licence for raw in self.raw_files if raw.licence))

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        """Returns {"inputs": TextEncoder, "targets": TextEncoder}; no "inputs" in a language model.

        Raises:
            DataError: if a vocabulary file is missing.
        """
        raise NotImplementedError

    def feature_specs(self, data_dir: str | None) -> Specs:
        """Returns {"inputs": FeatureSpec, "targets": FeatureSpec}, what a model has to know."""
        specs = {
            name: features.FeatureSpec(
                encoder.vocab_size, "class_label" if name in self.class_label_features else "symbol"
            )
            for name, encoder in self._checked_encoders(data_dir).items()
        }
        features.check(specs)
        return specs

    def _checked_encoders(self, data_dir):
        title = f"feature_encoders of {self.name}"
        return contract.validated(self.feature_encoders(data_dir), contract.FEATURE_ENCODERS, title)

    def record_specs(self, data_dir: str | None) -> Specs:
        """Returns {feature: FeatureSpec} as in the files, where `preprocess` changes them."""
        return self.feature_specs(data_dir)

    def preprocess(self, records: dict[str, Any]) -> dict[str, Any]:
        """Makes the features of n examples of those of n records.

        Both are dicts of int32 tensors: ragged [n, (length)] or [n, (length), ...], class labels
        [n, 1]. It may add "weights", float [n, 1] or ragged like the targets: what each weighs in
        loss and metrics.
        """
        return records

    # What is measured, besides `eval_metrics`.

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        """Returns {name: FeatureMetric}: metrics that read features, or ids of the vocabulary.

        Teacher-forced. Names with a "/" are kept out of the result line.
        """
        return {}

    def summarize(self, results: dict[str, float]) -> dict[str, float]:
        """Returns {name: float}, what follows from the results of an evaluation, such as a mean."""
        return {}

    def score_decoded(
        self, sources: list[str], references: list[str], hypotheses: list[str]
    ) -> dict[str, float]:
        """Scores what free decoding wrote; the lists are of one length."""
        return {}

    def may_measure(self, name: str) -> bool:
        """Return whether an evaluation may have a result of a name, by `metrics.jsonl`'s names."""
        if name in _COMMON_RESULTS or name.startswith("losses/"):
            return True
        patterns = (*self.eval_metrics, *self.other_results)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return True
        is_decoded = name.startswith("decode/")
        methods = {"score_decoded"} if is_decoded else {"feature_metrics", "summarize"}
        # The nearest class that says something decides: names, or methods of unknown names.
        defining = (
            vars(c) for c in type(self).__mro__ if vars(c).keys() & {*methods, _RESULT_NAMES}
        )
        return _RESULT_NAMES not in next(defining)

    def feature_languages(self) -> dict[str, str]:
        """Returns {"inputs": "en", "targets": "zh"} of a translation problem; {} of others.

        The language of the targets chooses the tokenizer of BLEU.
        """
        return {}

    def check_scores(self) -> None:
        """Raises UsageError if a package is missing that `score_decoded` needs."""
        if languages := self.feature_languages():
            sacre_bleu.metric(language=languages["targets"])

    # Generation.

    def side_files(self) -> tuple[str, ...]:
        """Returns the names of the other files in data_dir, such as the vocabulary."""
        return ()

    def splits_to_generate(self, tmp_dir: str | None) -> tuple[str, ...]:
        """Returns the splits that there are raw data for."""
        return self.splits

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        """Checks that the raw data are there and writes the side files that are missing."""

    def generate_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterable[dict[str, Any]]:
        """Yields the samples of a split as {"inputs": str, "targets": str}."""
        raise NotImplementedError

    def encode_samples(self, samples: Samples, data_dir: str) -> Iterator[Any]:
        """Yields the records {"inputs": [int], "targets": [int]} of samples, EOS included.

        Called once per file, in several processes where there are many samples. There may be more
        or fewer records than samples, as when several are packed into one.
        """
        encoders = self.feature_encoders(data_dir)
        for columns in _encode_in_groups(samples, encoders, self.class_label_features):
            rows = [ids.to_lists() for ids in columns.values()]
            for values in zip(*rows, strict=True):
                yield dict(zip(columns, values, strict=True))

    def generate_encoded_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterable[Any]:
        """Yields the records of a split; where this is overridden, in one process."""
        samples = self.generate_samples(split, data_dir, tmp_dir, seed)
        return self.encode_samples(samples, data_dir)

    @functools.cached_property
    def left_out(self) -> collections.Counter[str]:
        """Counter of the reasons for which `generate_samples` leaves out samples; it counts."""
        return collections.Counter()

    def num_shards(self, split: str) -> int:
        """Returns the number of files of a split."""
        return self.num_train_shards if split == "train" else 1

    def shards_to_generate(self, tmp_dir: str | None) -> dict[str, int]:
        """Returns {split: number of files} of what is to be written."""
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
        """Writes the TFRecord files and side files, those that are not there yet.

        Args:
            data_dir: str. Folder to write to; it is made.
            tmp_dir: str. Folder with raw data, for problems that have some.
            seed: int. The same seed gives the same files.
            tasks: iterable of int, which files to write, counted over the splits from 0 on. The
                others may be written by other machines. All if None.
            num_processes: int. One per processor if None. It does not change the files.
            max_cases: int. The first so many samples of each split are taken; None takes all.

        Returns:
            dict from the name of each split that was written to to its number of new examples.

        Raises:
            DataError: if raw data are missing or not as expected; nothing half is left behind.
        """
        os.makedirs(data_dir, exist_ok=True)
        side_files_are_there = all(
            os.path.exists(os.path.join(data_dir, name)) for name in self.side_files()
        )
        num_shards = self.shards_to_generate(tmp_dir)
        tasks = None if tasks is None else list(tasks)
        self._max_cases = max_cases
        start = time.monotonic()
        left_out: collections.Counter[str] = collections.Counter()
        counts = {}
        with generation_plan.claimed(data_dir, self.filename, num_shards, seed, tasks) as missing:
            if side_files_are_there and not missing:
                print(f"{self.name}: data found in {data_dir}, nothing to generate")
                return {}
            self.prepare(data_dir, tmp_dir)
            for number, (split, shards) in enumerate(missing.items()):
                counts[split.name] = self._generate_split(
                    split, shards, data_dir, tmp_dir, num_processes, is_first=number == 0
                )
                left_out += self.left_out
        print(f"{self.name}: {_summary(counts, left_out, time.monotonic() - start, data_dir)}")
        return counts

    def _generate_split(self, split, shards, data_dir, tmp_dir, num_processes, is_first):
        where = (split.name, data_dir, tmp_dir, split.seed)
        self.left_out.clear()
        if type(self).generate_encoded_samples is Problem.generate_encoded_samples:
            if type(self).encode_samples is Problem.encode_samples:
                self._checked_encoders(data_dir)
            samples = self.generate_samples(*where)
            if is_first:
                samples = self._with_vocabulary_notes(samples, data_dir)
            encode: Callable[..., Any] = _Encode(self, data_dir)
        else:
            samples, encode = self.generate_encoded_samples(*where), iter
        return generation.write(
            split, samples, encode, shards, num_processes, self.left_out, self._max_cases
        )

    def _with_vocabulary_notes(self, samples, data_dir):
        """The samples, after notes on a vocabulary of words that is not of their words."""
        encoders = {
            name: encoder
            for name, encoder in self._encoders_of_samples(data_dir).items()
            if isinstance(encoder, text_encoder.TokenTextEncoder) and encoder.oov_id is not None
        }
        if not encoders:
            return samples
        samples = iter(samples)
        most = word_vocabulary.MAX_TEXTS
        first = list(itertools.islice(samples, min(most, self._max_cases or most)))
        for encoder in {id(encoder): encoder for encoder in encoders.values()}.values():
            names = {name for name, other in encoders.items() if other is encoder}
            texts = (
                text
                for sample in first
                for name, text in contract.validated(sample, contract.DICT, "A sample").items()
                if name in names and isinstance(text, str)
            )
            title = self.vocabulary_title or encoder.filename or "the vocabulary"
            for note in word_vocabulary.vocabulary_warnings(encoder, title, texts):
                print(f"note: {self.name}: {note}", flush=True)
        return itertools.chain(first, samples)

    def _encoders_of_samples(self, data_dir):
        """{feature: encoder} of what samples hold; {} where a problem encodes them itself."""
        is_ours = type(self).encode_samples is Problem.encode_samples
        return self.feature_encoders(data_dir) if is_ours else {}

    # Reading.

    def split_files(self, split: str, data_dir: str) -> list[str]:
        """Returns the paths of the TFRecord files of a split; raises DataError without them."""
        return tfrecords.find(data_dir, self.filename, split)

    def dataset(
        self,
        split: str,
        data_dir: str,
        hparams: Any,
        num_replicas: int = 1,
        seed: Any = None,
        static_shapes: bool = False,
    ) -> "tf.data.Dataset":
        """Returns one pass over a split, batched.

        Args:
            split: "train" (shuffled, without examples longer than `max_length`), "dev" or "test".
            data_dir: str. The folder that `generate_data` wrote.
            hparams: what the batching is read from, see `InputSettings`.
            num_replicas: int. Batches are this many times larger.
            seed: int. Makes shuffling repeatable. Or a function from the number of a pass to one.
            static_shapes: bool. Pad to the end of each bucket, see `InputSettings`.

        Returns:
            A `tf.data.Dataset` of (features, targets), int32 and 0-padded: features["inputs"]
            [B, S], features["targets"] [B, T], and the targets again; third the weights, float32
            [B, 1] or [B, T], where `preprocess` gives some. Of "train", with a function for
            `seed`, the `IndexedBatches` of all passes.

        Raises:
            DataError: if data are missing, or no example is left.
        """
        # Before TensorFlow is loaded, which takes seconds.
        reader = self.with_hparams(hparams, split)
        files = reader.split_files(split, data_dir)
        specs = reader.record_specs(data_dir)

        from ut_keras.data.reading import input_pipeline

        settings = input_pipeline.InputSettings.from_hparams(hparams)
        max_length = reader.max_length or settings.max_length
        return input_pipeline.make_dataset(
            files,
            specs,
            dataclasses.replace(settings, max_length=max_length, static_shapes=static_shapes),
            training=split == "train",
            num_replicas=num_replicas,
            seed=seed,
            check_counts=functools.partial(reader.check_counts, split, data_dir),
            **reader.reading(split, data_dir, hparams),
        )

    def with_hparams(self, hparams: Any, split: str | None = None) -> "Problem":
        """The problem as a run with these hparams has it: another, where features go by them.

        With `split`, that whose `max_length` and `preprocess` hold for a dataset of it. Raises
        `DataError` for hparams by which it cannot be read, before its data are made.
        """
        return self

    def check_counts(self, split: str, data_dir: str, counts: Sequence[int]) -> None:
        """Checks that each of `split_files` has as many records as data generation recorded.

        Files that were generated without such a record, as by T2T, are not checked.

        Args:
            counts: list of int, the number of records in each file.
        Raises:
            DataError: if a file has another number of records.
        """
        is_one_each = type(self).encode_samples is Problem.encode_samples
        files = self.split_files(split, data_dir)
        generation_plan.check_counts(files, counts, is_one_each)

    def reading(self, split: str, data_dir: str, hparams: Any) -> dict[str, Any]:
        """What is told to `input_pipeline.make_dataset` of how records become examples."""
        return {"preprocess": self.preprocess, "lengths_vary": self.preprocess_needs_hparams}

    @property
    def preprocess_needs_hparams(self) -> bool:
        """Whether `preprocess` is for a problem `with_hparams` alone, which knows them."""
        return False

    @property
    def preprocess_key(self) -> str:
        """What the lengths that `preprocess` makes depend on, besides its code."""
        return ""


@dataclasses.dataclass
class _Encode:
    """From the samples of a file to its records, as `encode_samples`, but sooner.

    A process that writes many files reads the vocabulary once.
    """

    problem: Problem
    data_dir: str

    def __call__(self, samples: Iterable[dict[str, Any]]) -> Iterator[Any]:
        problem = self.problem
        if type(problem).encode_samples is not Problem.encode_samples:
            yield from problem.encode_samples(samples, self.data_dir)
            return
        for columns in _encode_in_groups(samples, self._encoders, problem.class_label_features):
            yield from example_batch.serialize(columns)

    @functools.cached_property
    def _encoders(self):
        return self.problem.feature_encoders(self.data_dir)


def _encode_in_groups(samples, encoders, class_label_features):
    """Yields the records of samples, many at a time: {"inputs": RaggedIds, …}, EOS included."""
    samples = iter(samples)
    while group := list(itertools.islice(samples, _ENCODING_GROUP_SIZE)):
        columns = {}
        for name, encoder in encoders.items():
            ids = encoder.encode_ragged(contract.texts_of(group, name))
            is_label = name in class_label_features
            columns[name] = ids if is_label else ids.append(text_encoder.EOS)
        yield columns


def _summary(counts, left_out, seconds, data_dir):
    written = ", ".join(f"{count} {split}" for split, count in counts.items()) or "vocabulary"
    text = f"wrote {written} examples to {data_dir}"
    if seconds >= 1:
        rate = sum(counts.values()) / seconds
        text += f" in {seconds:,.0f} s, {rate:,.0f} a second"
    if left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        text += f"; skipped: {reasons}"
    return text
