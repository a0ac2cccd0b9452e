r"""Base classes of text datasets, with T2T's vocabularies and metrics.

A dataset of your own takes about ten lines:

    @problem.register("my_problem")
    class MyProblem(text_problems.Text2TextProblem):
        approx_vocab_size = 2**13

        def generate_samples(self, split, data_dir, tmp_dir, seed):
            path = os.path.join(tmp_dir, f"{split}.txt")
            with open(path, encoding="utf-8", newline="\n") as file:
                for line in file:
                    yield {"inputs": line.strip().lower(), "targets": line.strip()}

- `Text2SelfProblem` is for language models. Its samples have only "targets".
- `Text2ClassProblem` is for classification. Its "targets" are the name of a class.
- `TextConcat2ClassProblem` is for classification of several texts. Its "inputs" are a tuple.
"""

import collections
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from ut_keras.data import contract, tfrecords
from ut_keras.data.writing import generation
from ut_keras.errors import DataError
from ut_keras.problems import older_records, perplexity, problem
from ut_keras.problems.problem import Encoders, Metrics, Records, Samples
from ut_keras.text import text_encoder
from ut_keras.text.text_encoder import SubwordTextEncoder, TokenTextEncoder

Vocabulary: TypeAlias = SubwordTextEncoder | TokenTextEncoder
_MAX_SUBTOKEN_LENGTH = 200  # T2T's value, which limits the time spent on very long tokens


def by_frequency(counts: collections.Counter[str]) -> list[str]:
    """Return the words of a `Counter`, with the most frequent word first.

    Words with the same count are in alphabetical order.
    """
    return sorted(counts, key=lambda word: (-counts[word], word))


class Text2TextProblem(problem.Problem):
    """A text-to-text problem. A subclass defines `generate_samples`.

    Attributes:
        vocab_type: str. "subwords" means one vocabulary of subwords for inputs and targets, built
            from the train split. "tokens" means the words of the train split, with the most
            frequent word first. "characters" means UTF-8 bytes, without a vocabulary file.
        approx_vocab_size: int. The approximate number of subwords, or the largest number of words.
        max_samples_for_vocab: int. Number of samples from which the vocabulary is built. None means
            all samples.
        oov_token: str. The word that replaces words outside the vocabulary, for "tokens". None: a
            word outside the vocabulary raises an error.
        vocab_name: str. The name of the problem whose vocabulary is used. None means this problem.
    """

    num_train_shards = 100
    eval_metrics: tuple[str, ...] = (
        *problem.Problem.eval_metrics,
        "approx_bleu_score",
        "rouge_2_fscore",
        "rouge_L_fscore",
    )
    vocab_type = "subwords"
    approx_vocab_size = 2**15
    max_samples_for_vocab: int | None = None
    oov_token: str | None = None
    vocab_name: str | None = None

    def check(self) -> None:
        super().check()
        contract.check(self, contract.TEXT_PROBLEM_FIELDS)
        if type(self).text_encoder is Text2TextProblem.text_encoder:
            contract.check(self, contract.VOCABULARY_FIELDS)

    @property
    def vocab_filename(self) -> str:
        name = self.vocab_name or self.filename
        if self.vocab_type == "tokens":
            return f"vocab.{name}.tokens"
        return f"vocab.{name}.{self.approx_vocab_size}.subwords"

    def side_files(self) -> tuple[str, ...]:
        return () if self.vocab_type == "characters" else (self.vocab_filename,)

    def side_files_of_samples(self) -> tuple[str, ...]:
        return Text2TextProblem.side_files(self)

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        encoder = self.text_encoder(data_dir)
        return {"inputs": encoder, "targets": encoder}

    def text_encoder(self, data_dir: str | None) -> text_encoder.TextEncoder:
        """Return the encoder of the text."""
        if self.vocab_type == "characters":
            return text_encoder.ByteTextEncoder()
        path = os.path.join(data_dir or "", self.vocab_filename)
        if self.vocab_type == "tokens":
            return TokenTextEncoder(path, replace_oov=self.oov_token)
        return SubwordTextEncoder(path)

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        if self.raw_files:  # missing raw files must be reported before anything is written
            for split in self.splits_to_generate(tmp_dir):
                samples = self.generate_samples(split, data_dir, tmp_dir, 0)
                if next(iter(samples), None) is None:
                    raise DataError(
                        f"The raw files of {self.name} must contain samples of the {split} split. "
                        f"Received: none in tmp_dir={tmp_dir!r}."
                    )
        if self.vocab_type == "characters":
            return
        path = os.path.join(data_dir, self.vocab_filename)
        if not os.path.exists(path):
            text_encoder.store_new(self.build_vocab(self.texts_for_vocab(data_dir, tmp_dir)), path)

    def unknown_word_advice(self, data_dir: str, new_side_files: Sequence[str]) -> str:
        """Return advice for an error. Remove a new vocabulary if no data files use it."""
        advice = (
            "Set oov_token to a word that replaces unknown words, such as '<UNK>', or increase "
            f"approx_vocab_size. Received: oov_token={self.oov_token!r}, "
            f"approx_vocab_size={self.approx_vocab_size}."
        )
        path = os.path.join(data_dir, self.vocab_filename)
        has_data = any(tfrecords.exist(data_dir, self.filename, split) for split in self.splits)
        if path in new_side_files and not has_data and self.vocab_name is None:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            return advice
        files = f"{path} and {self.filename}-*" if has_data else path
        return f"{advice} To build the vocabulary again, remove {files}."

    def texts_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        """Yield the texts from which the vocabulary is built."""
        samples = self.generate_samples("train", data_dir, tmp_dir, 0)
        bounds = (self.max_samples_for_vocab, self._max_cases)
        for sample in generation.for_vocab(samples, self.name, *bounds):
            texts = contract.validated(sample, contract.DICT, "A sample")
            for name in self.class_label_features:
                if name not in texts:  # samples of T2T have the key "label" instead
                    contract.text_of(texts, name)
            yield from (
                text for name, text in texts.items() if name not in self.class_label_features
            )

    def build_vocab(self, texts: Iterable[str]) -> Vocabulary:
        """Return an encoder with a vocabulary built from the texts."""
        texts = contract.texts(texts)
        if self.vocab_type == "subwords":
            encoder = SubwordTextEncoder.build_from_generator(
                texts, self.approx_vocab_size, max_subtoken_length=_MAX_SUBTOKEN_LENGTH
            )
            print(f"{self.name}: vocabulary of {encoder.vocab_size:,} subwords", flush=True)
            return encoder
        counts = collections.Counter(word for text in texts for word in text.split())
        words = by_frequency(counts)[: self.approx_vocab_size]
        if self.oov_token and self.oov_token not in words:
            words.insert(0, self.oov_token)
        print(f"{self.name}: vocabulary of {len(words):,} of {len(counts):,} words", flush=True)
        return TokenTextEncoder(tokens=words)


class WordsProblem(Text2TextProblem):
    """A problem whose words are separated by spaces.

    A subclass defines `words`, which returns the vocabulary.
    """

    eval_metrics: tuple[str, ...] = problem.Problem.eval_metrics
    vocab_type = "tokens"
    approx_vocab_size = sys.maxsize  # this value means that there is no limit

    def unknown_word_advice(self, data_dir: str, new_side_files: Sequence[str]) -> str:
        return ""

    def words(self, tmp_dir: str | None) -> list[str]:
        """Return the words of the vocabulary in the order of their ids."""
        raise NotImplementedError

    def side_files_of_samples(self) -> tuple[str, ...]:
        return ()

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        path = os.path.join(data_dir, self.vocab_filename)
        if not os.path.exists(path):
            text_encoder.store_new(TokenTextEncoder(tokens=self.words(tmp_dir)), path)


class Text2SelfProblem(Text2TextProblem):
    """A language model problem. Its samples have only "targets"."""

    other_results: tuple[str, ...] = ("per_word_perplexity",)

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        return {"targets": self.text_encoder(data_dir)}

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        return {"per_word_perplexity": perplexity.per_word(self.text_encoder(data_dir))}


class Text2ClassProblem(Text2TextProblem):
    """A text classification problem. The "targets" of a sample name a class.

    Attributes:
        class_labels: tuple of str. Names of the classes. None means the labels of the train split,
            which are stored in a file.
    """

    eval_metrics: tuple[str, ...] = ("accuracy", "neg_log_perplexity")
    class_label_features: tuple[str, ...] = ("targets",)
    class_labels: tuple[str, ...] | None = None

    @property
    def labels_filename(self) -> str:
        return f"labels.{self.filename}.txt"

    def side_files(self) -> tuple[str, ...]:
        own = () if self.class_labels else (self.labels_filename,)
        return (*super().side_files(), *own)

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        path = os.path.join(data_dir or "", self.labels_filename)
        filename = None if self.class_labels else path
        return {
            "inputs": self.text_encoder(data_dir),
            "targets": text_encoder.ClassLabelEncoder(self.class_labels or None, filename),
        }

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        super().prepare(data_dir, tmp_dir)
        path = os.path.join(data_dir, self.labels_filename)
        if not self.class_labels and os.path.exists(path):
            found = text_encoder.ClassLabelEncoder(filename=path).entries
            contract.validated(found, contract.CLASS_LABELS, f"The labels in {path}")
        elif not self.class_labels:
            # The labels of all samples are used even if only a few samples are written, so that
            # later calls find the same labels.
            samples = self.generate_samples("train", data_dir, tmp_dir, 0)
            samples = generation.for_vocab(samples, self.name)
            labels = sorted({contract.text_of(sample, "targets") for sample in samples})
            contract.validated(labels, contract.CLASS_LABELS, f"The labels of {self.name}")
            text_encoder.write_lines(path, labels)


class TextConcat2ClassProblem(Text2ClassProblem):
    """A classification problem of several texts. A sample's "inputs" are a tuple.

    In a record, the first id of "$" separates the texts, as in T2T. Records of T2T before 1.11 also
    have an EOS before each separator. `ut-decoder` accepts only one text.
    """

    line_note = (
        "the model was trained on several texts with a separator between their ids. As in T2T, a "
        "line is read as one text, so the outputs mean little"
    )

    def texts_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        for texts in super().texts_for_vocab(data_dir, tmp_dir):
            yield from texts

    def encode_samples(self, samples: Samples, data_dir: str) -> Records:
        encoders = self.feature_encoders(data_dir)
        between = encoders["inputs"].encode("$")[:1]
        for sample in samples:
            first, *others = map(encoders["inputs"].encode, sample["inputs"])
            for ids in others:
                first = [*first, *between, *ids]
            targets = encoders["targets"].encode(sample["targets"])
            yield {"inputs": [*first, text_encoder.EOS], "targets": targets}

    def check_counts(self, split: str, data_dir: str, counts: Sequence[int]) -> None:
        super().check_counts(split, data_dir, counts)
        older_records.note_eos_between_texts(self.name, self.split_files(split, data_dir))
