"""Stand-in for data_generators.text_problems: the base classes of text problems.

References: tensor2tensor/data_generators/text_problems.py.
"""

import math
import numbers
import os
from collections.abc import Iterator
from typing import Any

from ut_keras.data import contract
from ut_keras.data.contract import shortened, text_of
from ut_keras.data.writing import generation
from ut_keras.errors import DataError
from ut_keras.problems.problem import Encoders, Samples
from ut_keras.t2t import generator_utils, hparam, problem, text_encoder, text_files
from ut_keras.t2t.naming import Metrics, ModalityType
from ut_keras.t2t.text_files import *  # noqa: F403 (names of T2T's module)
from ut_keras.text import text_lines
from ut_keras.text.text_encoder import TextEncoder, store_new


class VocabType:
    """Kinds of vocabularies."""

    CHARACTER = "character"
    SUBWORD = "subwords"
    TOKEN = "tokens"


class Text2TextProblem(problem.Problem):
    """A text-to-text problem with T2T's methods.

    A subclass defines `generate_samples`.
    """

    # Attributes and methods that subclasses define.

    @property
    def dataset_splits(self) -> list[dict[str, Any]]:
        return [
            {"split": problem.DatasetSplit.TRAIN, "shards": 100},
            {"split": problem.DatasetSplit.EVAL, "shards": 1},
        ]

    is_generate_per_split: Any = problem.RequiredAttribute()  # bool
    generate_samples: Any = (
        problem.RequiredAttribute()
    )  # (data_dir, tmp_dir, dataset_split) -> Samples
    vocab_type = VocabType.SUBWORD
    approx_vocab_size = 2**15
    additional_reserved_tokens: list[str] = []
    oov_token: str | None = None
    max_samples_for_vocab: int | None = None
    max_subtoken_length: int | None = 200
    packed_length: int | None = None
    packed_spacing = 0
    has_inputs = True
    inputs_prefix = ""
    targets_prefix = ""
    use_vocab_from_other_problem: "Text2TextProblem | None" = None
    batch_size_means_tokens = True
    already_shuffled = False

    # Vocabulary.

    @property
    def vocab_filename(self) -> str:
        if self.use_vocab_from_other_problem:
            return self.use_vocab_from_other_problem.vocab_filename
        if self.vocab_type == VocabType.SUBWORD:
            return f"vocab.{self.dataset_filename()}.{self.approx_vocab_size}.subwords"
        return f"vocab.{self.dataset_filename()}.tokens"

    def get_or_create_vocab(
        self, data_dir: str | None, tmp_dir: str | None, force_get: bool = False
    ) -> TextEncoder:
        if self.vocab_type == VocabType.CHARACTER:
            return text_encoder.ByteTextEncoder()
        path = os.path.join(data_dir or "", self.vocab_filename)
        if self.vocab_type == VocabType.TOKEN:
            if not force_get and not os.path.isfile(path):
                raise DataError(
                    f"{path} must contain the words of {type(self).__name__}, one per line; "
                    "ut_keras does not create it. Received: no such file."
                )
            return text_encoder.TokenTextEncoder(path, replace_oov=self.oov_token)
        if force_get:
            return text_encoder.SubwordTextEncoder(path)
        if self.use_vocab_from_other_problem:
            return self.use_vocab_from_other_problem.get_or_create_vocab(data_dir, tmp_dir)
        return generator_utils.get_or_generate_vocab_inner(
            data_dir,
            self.vocab_filename,
            self.approx_vocab_size,
            self.generate_text_for_vocab(data_dir or "", tmp_dir),
            max_subtoken_length=self.max_subtoken_length,
            reserved_tokens=text_encoder.RESERVED_TOKENS + list(self.additional_reserved_tokens),
        )

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        samples = self.samples_of(data_dir, tmp_dir, problem.DatasetSplit.TRAIN)
        bounds = (self.max_samples_for_vocab, self._max_cases)
        for sample in generation.for_vocab(samples, self.name, *bounds):
            yield from self.texts_of(sample)

    def texts_of(self, sample: dict[str, Any]) -> list[str]:
        """Return the texts of a sample from which a vocabulary is built."""
        return [text_of(sample, name) for name in self._text_features]

    @property
    def _text_features(self):
        return ("inputs", "targets") if self.has_inputs else ("targets",)

    # Data generation.

    def samples_of(self, data_dir: str, tmp_dir: str | None, dataset_split: str) -> Samples:
        """Return the samples of a split."""
        return self.generate_samples(data_dir, tmp_dir, dataset_split)

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str | None, dataset_split: str
    ) -> Samples:
        samples = self.samples_of(data_dir, tmp_dir, dataset_split)
        return self.encoded(samples, self.get_or_create_vocab(data_dir, tmp_dir), data_dir)

    def encoded(self, samples: Samples, encoder: TextEncoder, data_dir: str) -> Samples:
        """Yield samples in which texts are lists of ids with EOS.

        Other values do not change.
        """
        del data_dir
        return text_files.text2text_generate_encoded(
            samples,
            encoder,
            has_inputs=self.has_inputs,
            inputs_prefix=self.inputs_prefix,
            targets_prefix=self.targets_prefix,
        )

    def generate_data(self, data_dir: str, tmp_dir: str | None, task_id: int = -1) -> None:
        self.adapted.generate_by_split(data_dir, tmp_dir, tasks=None if task_id < 0 else [task_id])

    def _maybe_pack_examples(self, examples: Samples) -> Samples:
        # Older versions of T2T call this method.
        if not self.packed_length:
            return examples
        return generator_utils.pack_examples(
            examples, self.has_inputs, self.packed_length, self.packed_spacing
        )

    def _pack_fn(self) -> None:
        # If a package contains a copy of T2T's generate_data, the copy passes this method to
        # shuffle_dataset.
        if self.packed_length:
            name = f"{type(self).__name__}, which overrides generate_data"
            raise DataError(
                f"packed_length must be None. Received: {self.packed_length} in {name}."
            )

    # Features.

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        encoder = self.get_or_create_vocab(data_dir, None, force_get=True)
        return {name: encoder for name in self._text_features}

    def max_length(self, model_hparams: hparam.HParams) -> int:
        return self.packed_length or super().max_length(model_hparams)

    def hparams(self, defaults: hparam.HParams, model_hparams: hparam.HParams) -> None:
        defaults.stop_at_eos = 1
        defaults.modality = {name: ModalityType.SYMBOL for name in self._text_features}
        encoders = self.get_feature_encoders()
        defaults.vocab_size = {name: encoders[name].vocab_size for name in self._text_features}

    def example_reading_spec(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        return dict.fromkeys(self._text_features), None

    def eval_metrics(self) -> list[str]:
        return [*super().eval_metrics(), Metrics.APPROX_BLEU, Metrics.ROUGE_2_F, Metrics.ROUGE_L_F]


class Text2SelfProblem(Text2TextProblem):
    """A language model problem. Its samples have only "targets"."""

    has_inputs = False


class ChoppedTextProblem(Text2SelfProblem):
    """A language model problem that cuts files into examples of `sequence_length` ids.

    The examples have no EOS. Text file i is written to data file i modulo the number of data files.
    Subclasses define the two lists of paths, `sequence_length` and `dataset_splits`.
    """

    multiprocess_generate = True  # each data file has its own task of T2T
    remainder_policy = "pad"  # or "drop"
    max_chars_for_vocab = 10**7
    max_dev_chars = 10**7

    train_text_filepaths: Any = problem.RequiredAttribute()  # (tmp_dir) -> list[str]
    dev_text_filepaths: Any = problem.RequiredAttribute()  # (tmp_dir) -> list[str]
    sequence_length: Any = problem.RequiredAttribute()  # int

    @property
    def num_train_shards(self) -> int:
        return self.dataset_splits[0]["shards"]

    @property
    def num_dev_shards(self) -> int:
        return self.dataset_splits[1]["shards"]

    @property
    def num_generate_tasks(self) -> int:
        return self.num_train_shards + self.num_dev_shards

    def max_length(self, model_hparams: hparam.HParams) -> int:
        return model_hparams.split_to_length or self.sequence_length

    def eval_metrics(self) -> list[str]:
        return [Metrics.ACC, Metrics.NEG_LOG_PERPLEXITY]

    def prepare_to_generate(self, data_dir: str, tmp_dir: str | None) -> None:
        self.get_or_create_vocab(data_dir, tmp_dir)

    def generate_data(self, data_dir: str, tmp_dir: str | None, task_id: int = -1) -> None:
        encoder = self.get_or_create_vocab(data_dir, tmp_dir)
        paths = [
            *self.training_filepaths(data_dir, self.num_train_shards, shuffled=False),
            *self.dev_filepaths(data_dir, self.num_dev_shards, shuffled=False),
        ]
        examples = self.example_generator(encoder, tmp_dir, task_id)
        generator_utils.generate_files(examples, [paths[task_id]])
        generator_utils.shuffle_dataset([paths[task_id]])

    def text_filepaths_for_task(self, tmp_dir: str | None, task_id: int) -> list[str]:
        number = self.num_train_shards
        if task_id < number:
            return self.train_text_filepaths(tmp_dir)[task_id::number]
        return self.dev_text_filepaths(tmp_dir)[task_id - number :: self.num_dev_shards]

    def filepath_to_unicode_strings(self, filepath: str) -> Iterator[str]:
        with text_lines.opened(filepath) as file:
            text = file.read().decode("utf-8")
        yield text

    def file_generator(
        self,
        filepaths: list[str],
        max_chars_per_file: int | None = None,
        max_chars_total: int | None = None,
    ) -> Iterator[str]:
        """Yield the texts of files, cut to the limits in characters."""
        total = max_chars_total or math.inf
        for path in filepaths:
            of_file = max_chars_per_file or math.inf
            for text in self.filepath_to_unicode_strings(path):
                text = text[: int(min(len(text), of_file, total))]
                of_file -= len(text)
                total -= len(text)
                if text:
                    yield text
                if total <= 0:
                    return
                if of_file <= 0:
                    break

    def example_generator(self, encoder: TextEncoder, tmp_dir: str | None, task_id: int) -> Samples:
        """Yield the examples of the data file of a task."""
        paths = self.text_filepaths_for_task(tmp_dir, task_id)
        most = None
        if task_id >= self.num_train_shards and paths:
            most = self.max_dev_chars // (self.num_dev_shards * len(paths))
        length, ids = self.sequence_length, []
        for text in self.file_generator(paths, max_chars_per_file=most):
            ids += encoder.encode(text)
            whole = len(ids) // length * length
            yield from ({"targets": ids[at : at + length]} for at in range(0, whole, length))
            ids = ids[whole:]
        if ids and self.remainder_policy == "pad":
            yield {"targets": ids + [text_encoder.PAD_ID] * (length - len(ids))}

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        paths = self.train_text_filepaths(tmp_dir)
        return self.file_generator(paths, max_chars_total=self.max_chars_for_vocab)


class Text2ClassProblem(Text2TextProblem):
    """A text classification problem.

    Samples have "inputs" and the class number "label".
    """

    num_classes: Any = problem.RequiredAttribute()  # int

    def class_labels(self, data_dir: str | None) -> list[str]:
        return [f"ID_{number}" for number in range(self.num_classes)]

    def texts_of(self, sample: dict[str, Any]) -> list[str]:
        return [text_of(sample, "inputs")]

    def encoded(self, samples: Samples, encoder: TextEncoder, data_dir: str) -> Samples:
        for sample, (ids,) in text_files.encode(samples, {"inputs": encoder}, self.texts_of):
            yield {"inputs": ids, "targets": [self.label_of(sample)]}

    def label_of(self, sample: dict[str, Any]) -> int:
        """Return the class number of a sample."""
        label: Any = sample.get("label")
        is_number = isinstance(label, numbers.Integral)
        if not is_number or not 0 <= label < self.num_classes:
            raise DataError(
                f'A sample of {self.name} must have a "label" in [0, {self.num_classes}), the '
                f"number of a class. Received: {shortened(sample)}."
            )
        return int(label)

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        return {
            "inputs": self.get_or_create_vocab(data_dir, None, force_get=True),
            "targets": self.label_encoder(data_dir),
        }

    def label_encoder(self, data_dir: str | None) -> text_encoder.ClassLabelEncoder:
        """Return the encoder of `class_labels`. T2T has no such method."""
        title = f"class_labels of {type(self).__name__}"
        labels = self.class_labels(data_dir)
        if isinstance(labels, list | tuple):  # T2T also accepts numbers as labels
            labels = [str(label) if isinstance(label, int) else label for label in labels]
        contract.validated(labels, contract.CLASS_LABELS, title)
        if len(labels) != self.num_classes:
            raise DataError(
                f"{title} must be num_classes={self.num_classes} names. "
                f"Received: {len(labels)} names."
            )
        return text_encoder.ClassLabelEncoder(labels)

    def hparams(self, defaults: hparam.HParams, model_hparams: hparam.HParams) -> None:
        defaults.modality = {"inputs": ModalityType.SYMBOL, "targets": ModalityType.CLASS_LABEL}
        size = self.get_feature_encoders()["inputs"].vocab_size
        defaults.vocab_size = {"inputs": size, "targets": self.num_classes}


class TextConcat2ClassProblem(Text2ClassProblem):
    """A classification problem for several texts, with `CONCAT_TOKEN` between them."""

    CONCAT_TOKEN = "$"

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        # As in T2T, max_samples_for_vocab does not end the texts: from this sample on, only the
        # first text of each sample counts.
        samples = self.samples_of(data_dir, tmp_dir, problem.DatasetSplit.TRAIN)
        most = self.max_samples_for_vocab or math.inf
        counted = enumerate(generation.for_vocab(samples, self.name, None, self._max_cases), 1)
        for number, sample in counted:
            texts = self.texts_of(sample)
            yield from texts if number < most else texts[:1]

    def texts_of(self, sample: dict[str, Any]) -> list[str]:
        return list(sample["inputs"])

    def encoded(self, samples: Samples, encoder: TextEncoder, data_dir: str) -> Samples:
        between = encoder.encode(self.CONCAT_TOKEN)[0]
        for sample in samples:
            ids = []
            for text in sample["inputs"]:
                ids += [*encoder.encode(text), between]
            ids[-1:] = [text_encoder.EOS_ID]
            yield {"inputs": ids, "targets": [self.label_of(sample)]}


class QuestionAndContext2TextProblem(Text2TextProblem):
    """A text-to-text problem whose samples have a third text, "context".

    Models read only "inputs" and "targets". A class that adds the context to the inputs, as T2T's
    `SquadConcat` does, overrides `preprocess_example` and removes "context" from `modality` in
    `hparams`.
    """

    QUESTION_SEPARATOR = "<EOQ>"
    QUESTION_SEPARATOR_ID = 2

    @property
    def additional_reserved_tokens(self) -> list[str]:  # type: ignore[override]
        return [self.QUESTION_SEPARATOR]

    @property
    def _text_features(self):
        return ("inputs", "context", "targets")

    def encoded(self, samples: Samples, encoder: TextEncoder, data_dir: str) -> Samples:
        context_encoder = encoder
        if type(self).feature_encoders is not Text2TextProblem.feature_encoders:
            context_encoder = self.feature_encoders(data_dir)["context"]  # as in T2T
        for example in super().encoded(samples, encoder, data_dir):
            context = context_encoder.encode(text_of(example, "context"))
            yield {**example, "context": [*context, text_encoder.EOS_ID]}


class DistributedText2TextProblem(Text2TextProblem):
    """A text-to-text problem whose `generate_samples` also gets a split's raw files."""

    input_files: Any = problem.RequiredAttribute()  # (dataset_split="train") -> list[str]
    num_output_shards: Any = None  # {split: int} in older versions of T2T
    is_generate_per_split = True

    @property
    def dataset_splits(self) -> list[dict[str, Any]]:
        shards = self.num_output_shards
        if not isinstance(shards, dict):
            return super().dataset_splits
        return [{"split": split, "shards": shards[split]} for split in shards if shards[split]]

    def samples_of(self, data_dir: str, tmp_dir: str | None, dataset_split: str) -> Samples:
        files = self.input_files(dataset_split)
        return self.generate_samples(data_dir, tmp_dir, dataset_split, files)


class Text2textTmpdir(Text2TextProblem):
    """A problem with the parallel files {inputs,targets}.{train,eval}.txt in tmp_dir."""

    TRAIN_FILES = ("inputs.train.txt", "targets.train.txt")
    EVAL_FILES = ("inputs.eval.txt", "targets.eval.txt")

    is_generate_per_split = True

    _tmp_dir_override: str | None = None

    def generate_samples(self, data_dir: str, tmp_dir: str | None, dataset_split: str) -> Samples:
        training = dataset_split == problem.DatasetSplit.TRAIN
        folder = self._tmp_dir_override or tmp_dir or ""
        names = self.TRAIN_FILES if training else self.EVAL_FILES
        return text_files.text2text_txt_iterator(*(os.path.join(folder, name) for name in names))


class Text2textTmpdirTokens(Text2textTmpdir):
    """A `Text2textTmpdir` whose vocabulary consists of the words in vocab.txt."""

    vocab_type = VocabType.TOKEN
    oov_token = "<UNK>"

    def _generate_vocab(self, tmp_dir: str | None) -> text_encoder.TokenTextEncoder:
        lines = text_files.txt_line_iterator(os.path.join(tmp_dir or "", "vocab.txt"))
        return text_encoder.TokenTextEncoder(None, vocab_list=[self.oov_token, *lines])

    def generate_samples(self, data_dir: str, tmp_dir: str | None, dataset_split: str) -> Samples:
        path = os.path.join(data_dir, self.vocab_filename)
        if not os.path.exists(path):
            store_new(self._generate_vocab(tmp_dir), path)
        return super().generate_samples(data_dir, tmp_dir, dataset_split)
