"""Wraps a T2T problem in the interface of problems/problem.py.

    class PoetryLines(text_problems.Text2TextProblem): …     T2T's methods, in the user's package
    adapt(PoetryLines())                                     a `problems.Problem`

Files, names, vocabulary and splits are the same as in T2T. ut_keras encodes, shuffles, reads and
batches the data. If the package overrides a method that ut_keras does not call, `Adapted.check`
raises an error or prints a note, before any file is written (see `overridden`).
"""

import contextlib
import copy
import dataclasses
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ut_keras import hparam_schema
from ut_keras.data import contract, features, tfrecords
from ut_keras.data.reading import packing, reading_options
from ut_keras.data.writing import generation
from ut_keras.errors import DataError
from ut_keras.files import file_error
from ut_keras.problems import older_records, perplexity, problem
from ut_keras.t2t import (
    example_features,
    feature_modalities,
    missing,
    one_pass,
    overridden,
    package_features,
    text_encoder,
    text_problems,
    translate,
    usr_dir,
)
from ut_keras.t2t import hparam as t2t_hparam
from ut_keras.t2t import problem as t2t_problem
from ut_keras.t2t.naming import ModalityType
from ut_keras.text import sacre_bleu

_ANY_NUMBER = features.FeatureSpec(2**31 - 1)
_CLASS_METRICS = ("accuracy", "accuracy_top5", "accuracy_per_sequence", "neg_log_perplexity")


def adapt(t2t: t2t_problem.Problem) -> "Adapted":
    """Return a T2T problem (`ut_keras.t2t.problem.Problem`) as a `problems.Problem`."""
    own_ids = not overridden.is_unchanged(t2t, "generate_encoded_samples")
    return (AdaptedWithIds if own_ids else Adapted)(t2t)


class Adapted(problem.Problem):
    """A T2T problem whose samples are texts.

    Args:
        t2t: `ut_keras.t2t.problem.Problem`. The problem that the package defines.
    """

    other_results = ("per_word_perplexity", "decode/bleu")

    def __init__(self, t2t: t2t_problem.Problem) -> None:
        # The type is Any, because the package may define attributes that the base class lacks.
        self.t2t: Any = t2t
        t2t.adapted = self
        self.name = t2t.name
        # The hparams of the run, or None before `with_hparams`.
        self._run_hparams: hparam_schema.BasicHParams | None = None
        self._mode = ""  # T2T's mode for the dataset that is read
        self._decodes = False  # whether the examples are read to be decoded
        self._class_features: list[str] = []  # set during data generation
        self._pass: one_pass.OnePass | None = None
        self._tmp_dir: str | None = None  # set during data generation, as is `_encoder`
        self._encoder: Any = None
        # Dict from data_dir to (encoders, the problem's T2T hparams).
        self._cache: dict[str | None, tuple[problem.Encoders, t2t_hparam.HParams]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A process that gets a pickled problem computes these three values again.
        return {**self.__dict__, "_pass": None, "_cache": {}, "_encoder": None}

    # Properties of the problem.

    def check(self) -> None:
        overridden.check(self.t2t)

    @property
    def filename(self) -> str:
        return self.t2t.dataset_filename()

    @property
    def splits(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self._shards) or ("train", "dev")

    @property
    def eval_metrics(self) -> tuple[str, ...]:  # type: ignore[override]
        names = tuple(self.t2t.eval_metrics())
        if not isinstance(self.t2t, text_problems.Text2ClassProblem):
            return names
        others = [name for name in names if name not in _CLASS_METRICS]
        # T2T's default has metrics of text targets. They are skipped without a note.
        if others and not overridden.is_unchanged(self.t2t, "eval_metrics"):
            missing.print_once(
                f"note: {self.name}, whose targets are classes, skips the metrics "
                f"{', '.join(others)}"
            )
        return tuple(name for name in names if name in _CLASS_METRICS)

    def _space_id(self, name):
        with contextlib.suppress(DataError):  # the vocabulary may not exist yet
            return self._encoders_and_hparams(next(iter(self._cache), None))[1].get(name)
        return 0

    target_space_id: Any = property(lambda self: self._space_id("target_space_id"))
    input_space_id: Any = property(lambda self: self._space_id("input_space_id"))

    @property
    def max_length(self) -> int | None:  # type: ignore[override]
        chopped = isinstance(self.t2t, text_problems.ChoppedTextProblem)
        has_own = chopped or getattr(self.t2t, "own_max_length", None)
        if self._run_hparams is None or (
            overridden.is_unchanged(self.t2t, "max_length") and not has_own
        ):
            return getattr(self.t2t, "packed_length", None)
        longest = self.t2t.max_length(t2t_hparam.from_dataclass(self._run_hparams))
        return contract.validated(longest, contract.MAX_LENGTH, f"max_length of {self.name}")

    def feature_encoders(self, data_dir: str | None) -> problem.Encoders:
        return dict(self._encoders_and_hparams(data_dir)[0])

    def feature_specs(self, data_dir: str | None) -> problem.Specs:
        encoders, hparams = self._encoders_and_hparams(data_dir)
        specs = {}
        for name, kind in feature_modalities.by_feature(hparams).items():
            if kind == ModalityType.IDENTITY:  # packing adds features of this kind
                continue
            if name not in ("inputs", "targets"):
                # If the package overrides `preprocess_example`, the override may read the feature.
                if not self.preprocess_needs_hparams:
                    self._note_unused_feature(name)
                continue
            modality = feature_modalities.modality(name, kind, self.name)
            size = hparams.vocab_size.get(name) or encoders[name].vocab_size
            specs[name] = features.FeatureSpec(size, modality)
        if "targets" not in specs or "targets" not in encoders:
            raise DataError(
                f"{self.name} must have targets, with an encoder and a modality. "
                f"Received: encoders of {', '.join(encoders)}, modalities of {', '.join(specs)}."
            )
        features.check(specs)
        return specs

    def record_specs(self, data_dir: str | None) -> problem.Specs:
        specs = self.feature_specs(data_dir)
        if getattr(self.t2t, "packed_length", None):
            parts = (f"{name}_{part}" for name in specs for part in ("segmentation", "position"))
            specs |= dict.fromkeys(parts, _ANY_NUMBER)
        stored = self.stored_features()
        if not overridden.is_unchanged(self.t2t, "preprocess_example"):
            for name in stored - specs.keys():
                specs[name] = _ANY_NUMBER
        return specs

    def _note_unused_feature(self, name):
        missing.print_once(f"note: no model reads the feature {name!r} of {self.name}")

    def feature_metrics(self, data_dir: str | None) -> problem.Metrics:
        if isinstance(self.t2t, text_problems.Text2SelfProblem):
            encoder = self.feature_encoders(data_dir)["targets"]
            return {"per_word_perplexity": perplexity.per_word(encoder)}
        return {}

    def score_decoded(
        self, sources: list[str], references: list[str], hypotheses: list[str]
    ) -> dict[str, float]:
        if not isinstance(self.t2t, translate.TranslateProblem):
            return {}
        language = self.feature_languages()["targets"]
        return sacre_bleu.corpus_bleu(references, hypotheses, language, self.name)

    def text_prefix(self, name: str) -> str:
        if isinstance(self.t2t, text_problems.Text2ClassProblem):  # has no prefixes, as in T2T
            return ""
        return getattr(self.t2t, f"{name}_prefix", "")

    def feature_languages(self) -> dict[str, str]:
        if not isinstance(self.t2t, translate.TranslateProblem):
            return {}
        return translate.languages(self.t2t, self.target_space_id)

    def _encoders_and_hparams(self, data_dir):
        """Return the encoders and the problem's T2T hparams for a given data_dir."""
        data_dir = file_error.optional_path(data_dir, "data_dir")
        if data_dir not in self._cache:
            self._cache[data_dir] = package_features.read(
                self.t2t, self.name, self._run_hparams, data_dir
            )
        return self._cache[data_dir]

    # Data generation.

    @property
    def _shards(self):
        """The dict {"train": number of files, …}, in the order of `dataset_splits`."""
        splits = getattr(self.t2t, "dataset_splits", ())
        return {t2t_problem.SPLIT_OF_FILES[split["split"]]: split["shards"] for split in splits}

    def num_shards(self, split: str) -> int:
        return self._shards.get(split, 1)

    def side_files(self) -> tuple[str, ...]:
        t2t = self.t2t
        methods = ("feature_encoders", "get_or_create_vocab", "generate_encoded_samples")
        of_texts = isinstance(t2t, text_problems.Text2TextProblem)
        if not of_texts or not overridden.is_unchanged(t2t, *methods):
            return ()
        return () if t2t.vocab_type == text_problems.VocabType.CHARACTER else (t2t.vocab_filename,)

    def generate_data(
        self,
        data_dir: str,
        tmp_dir: str | None = None,
        seed: int = problem.DEFAULT_SEED,
        tasks: Iterable[int] | None = None,
        num_processes: int | None = None,
        max_cases: int | None = None,
    ) -> dict[str, int]:
        data_dir = file_error.checked_path(data_dir, "data_dir")
        tmp_dir = file_error.optional_path(tmp_dir, "tmp_dir") or ""
        if tmp_dir:
            os.makedirs(tmp_dir, exist_ok=True)  # t2t-datagen also creates the folder
        os.makedirs(data_dir, exist_ok=True)
        # This call raises an error for an unsupported modality before data generation.
        self._class_features = feature_modalities.class_features(self.t2t, data_dir)
        if self.writes_in_turn:
            how = {"tasks": tasks, "num_processes": num_processes, "max_cases": max_cases}
            return self.generate_by_split(data_dir, tmp_dir, seed, **how)
        if max_cases:
            raise DataError(
                "max_cases requires a problem that yields samples. Received: "
                f"max_cases={max_cases} for {self.name}, which overrides generate_data."
            )
        return self._call_generate_data(data_dir, tmp_dir, seed, tasks)

    @property
    def writes_in_turn(self) -> bool:
        """Whether samples go to the files in turn. An empty file is then an error.

        A package that overrides `generate_data` may write an empty file on purpose.
        """
        return type(self.t2t).generate_data is text_problems.Text2TextProblem.generate_data

    def generate_by_split(
        self, data_dir: str, tmp_dir: str | None, seed: int = problem.DEFAULT_SEED, **how: Any
    ) -> dict[str, int]:
        """Write the files of T2T's `dataset_splits`.

        The arguments are those of `generate_data`.
        """
        self._seed, self._tmp_dir, self._encoder = seed, tmp_dir, None
        self.t2t._max_cases = how.get("max_cases")
        try:
            return super().generate_data(data_dir, tmp_dir, seed, **how)
        finally:
            self._cache.clear()
            self._encoder = None
            if self._pass:
                self._pass.close()
                self._pass = None

    def _call_generate_data(self, data_dir, tmp_dir, seed, tasks):
        """Call the `generate_data` of the package."""
        wanted = [split for split in self.splits if split != "test"] or self.splits
        if all(tfrecords.is_complete(data_dir, self.filename, split) for split in wanted):
            again = f"to generate the data again, remove the files {self.filename}-*"
            print(f"{self.name}: data found in {data_dir}, nothing to generate; {again}")
            return {}
        try:
            self.feature_specs(data_dir)  # raises `Missing` before the long data generation
        except missing.Missing:
            raise
        except Exception:
            pass  # the package may generate the files that `feature_specs` reads
        t2t_problem.set_seeds(seed)
        by_tasks = self.t2t.multiprocess_generate
        if by_tasks:
            contract.check(self.t2t, contract.T2T_TASK_FIELDS)
            self.t2t.prepare_to_generate(data_dir, tmp_dir)
        every = range(self.t2t.num_generate_tasks) if by_tasks and tasks is None else [-1]
        for task in every if tasks is None else tasks:
            self.t2t.generate_data(data_dir, tmp_dir, task)
        self._cache.clear()
        if tasks is None:
            for split in wanted:
                tfrecords.find(data_dir, self.filename, split)
        print(f"{self.name}: wrote data to {data_dir}")
        return {}

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        t2t, of_texts = self.t2t, type(self) is Adapted
        t2t_problem.set_seeds(self._seed)
        # The order of these steps is the same as in T2T. First, this method calls
        # generate_samples, which may write a vocabulary file. Then it requests the package's
        # encoder. Then it reads the samples, before ut_keras writes its files next to the files of
        # the package.
        samples: Any = ()
        if of_texts or not t2t.is_generate_per_split:
            samples = self._samples("train", data_dir, tmp_dir)
        if of_texts and not overridden.is_unchanged(t2t, "get_or_create_vocab"):
            self._get_or_create_encoder(data_dir)
        if not t2t.is_generate_per_split:
            found = (sample for sample in samples if sample is not None)
            read = generation.Samples(found, f"{self.name}, reading", self._max_cases)
            self._pass = one_pass.OnePass(read, self._shards, data_dir, self.filename)
            self._pass.check_same()
        elif of_texts and t2t.vocab_type == text_problems.VocabType.TOKEN:
            _with_first_sample_made(samples)
        if of_texts:
            t2t_problem.set_seeds(self._seed)
            self._get_or_create_encoder(data_dir)
            # `hparams` may need fields of a run, or files that are written with the samples. Both
            # are missing now. Missing attributes of an encoder are reported later.
            with contextlib.suppress(OSError, NotImplementedError, t2t_hparam.NoSuchHParam):
                # For an unsupported modality, this raises an error before the long data generation.
                self.feature_specs(data_dir)
        if self._pass:
            self._pass.write_record()

    def _get_or_create_encoder(self, data_dir):
        """Return the encoder of the data. The package may write a vocabulary file.

        Each process requests the encoder once from the package.
        """
        if self._encoder is None:
            encoder = self.t2t.get_or_create_vocab(data_dir, self._tmp_dir)
            contract.validated(encoder, contract.ENCODER, f"get_or_create_vocab of {self.name}")
            text_encoder.check_overrides(encoder)
            self._encoder = encoder
        return self._encoder

    def encoders_of_samples(self, data_dir: str) -> dict[str, Any]:
        encoder = self._get_or_create_encoder(data_dir)
        return dict.fromkeys(("inputs", "targets"), encoder)

    def generate_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> problem.Samples:
        if self._pass:
            return self._pass.read(split)
        t2t_problem.set_seeds(seed)
        return _with_first_sample_made(
            self._samples(t2t_problem.SPLIT_OF_T2T[split], data_dir, tmp_dir)
        )

    def _samples(self, word, data_dir, tmp_dir):
        return self._checked_samples(
            "generate_samples", self.t2t.samples_of(data_dir, tmp_dir, word)
        )

    def _checked_samples(self, name, samples):
        return contract.validated(samples, contract.SAMPLES, f"What {name} of {self.name} returns")

    def encode_samples(self, samples: problem.Samples, data_dir: str) -> Iterator[Any]:
        return self._records(
            self.t2t.encoded(samples, self._get_or_create_encoder(data_dir), data_dir)
        )

    def _records(self, examples):
        stored = self.stored_features()

        def ids_of(name, values):
            ids = contract.ids(f"feature {name!r}", values)
            if name in self._class_features:
                feature_modalities.check_one_class(ids, name, self.name)
            return ids

        records = (
            {
                name: ids_of(name, values)
                for name, values in contract.validated(example, contract.DICT, "A record").items()
                if name in stored
            }
            for example in examples
        )
        packed_length = getattr(self.t2t, "packed_length", None)
        return packing.pack(records, packed_length) if packed_length else records

    def stored_features(self) -> set[str]:
        """Return the names of the features in the files.

        Raises:
            DataError: if the package decodes the features, for example to other names.
        """
        fields, decoders = self.t2t.example_reading_spec()
        if decoders:
            raise DataError(
                f"example_reading_spec of {self.name} must return fields of ints only. "
                f"Received: decoders of {', '.join(decoders)}."
            )
        return set(fields)

    # Data reading.

    def with_hparams(self, hparams: Any, split: str | None = None) -> "Adapted":
        other = copy.copy(self)
        other._run_hparams = hparams if isinstance(hparams, hparam_schema.BasicHParams) else None
        other._mode = example_features.mode_of(split, self._decodes)
        if other._run_hparams == self._run_hparams:
            other._cache = self._cache  # with the same hparams, the cached values are the same
        return other

    def for_decoding(self) -> "Adapted":
        other = copy.copy(self)
        other._decodes = self.preprocess_needs_hparams
        return other if other._decodes else self

    def set_direction(self, reverse: bool, copy: bool) -> None:
        self.t2t._was_reversed, self.t2t._was_copy = reverse, copy

    def reading(self, split: str, data_dir: str, hparams: Any) -> reading_options.ReadingOptions:
        # As in T2T, an overridden `preprocess_example` truncates the features, if it calls the base
        # class or `preprocess_example_common`.
        options, changes = super().reading(split, data_dir, hparams), self.preprocess_needs_hparams
        return dataclasses.replace(
            options,
            limits={} if changes else options.limits,
            evenly_sharded=self.writes_in_turn,
            fixed_length=example_features.fixed_length(
                self.t2t, self._mode, self._run_hparams if changes else None
            ),
        )

    def check_counts(self, split: str, data_dir: str, counts: Sequence[int]) -> None:
        super().check_counts(split, data_dir, counts)
        if isinstance(self.t2t, text_problems.TextConcat2ClassProblem) and overridden.is_unchanged(
            self.t2t, "generate_encoded_samples"
        ):
            older_records.note_eos_between_texts(self.name, self.split_files(split, data_dir))

    @property
    def preprocess_needs_hparams(self) -> bool:
        return not overridden.is_unchanged(self.t2t, "preprocess_example")

    @property
    def preprocess_key(self) -> str:
        """A text that changes with the package's code, its flags and the hparams.

        It does not depend on other files that `preprocess_example` reads.
        """
        if not self.preprocess_needs_hparams:
            return ""
        code = type(self.t2t).preprocess_example.__code__
        of_code = (code.co_code, code.co_names, usr_dir.code_digest())
        key = zlib.crc32(repr((self._mode, self._run_hparams, *of_code)).encode())
        return f"preprocess_example {key:08x}"

    def preprocess(self, records: dict[str, Any]) -> dict[str, Any]:
        if not self.preprocess_needs_hparams:
            return records
        if self._run_hparams is None:
            raise DataError(
                f"hparams must be of a registered set, because {self.name} overrides "
                "preprocess_example. Received: other hparams."
            )
        encoders, package_hparams = next(iter(self._cache.values()))
        sizes = feature_modalities.vocab_sizes(package_hparams, encoders)
        hp = t2t_hparam.from_dataclass(self._run_hparams)
        note = self._note_unused_feature
        return example_features.preprocess(self.t2t, records, sizes, self._mode, hp, note)


class AdaptedWithIds(Adapted):
    """A T2T problem that encodes its samples itself, in one process."""

    def _samples(self, word, data_dir, tmp_dir):
        samples = self.t2t.generate_encoded_samples(data_dir, tmp_dir, word)
        return self._checked_samples("generate_encoded_samples", samples)

    def generate_encoded_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterable[Any]:
        return self._records(self.generate_samples(split, data_dir, tmp_dir, seed))


def _with_first_sample_made(samples):
    """Compute the first sample before any data file exists, and return all samples."""
    samples = iter(samples)
    return itertools.chain(list(itertools.islice(samples, 1)), samples)
