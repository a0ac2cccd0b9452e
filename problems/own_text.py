"""Your own text, by file name: `train`, `dev` and `test` in tmp_dir, UTF-8, one example a line.

    text2text_tsv    train.tsv    Zwei Hunde spielen im Schnee.<TAB>Two dogs play in the snow.
    text2self_txt    train.txt    Two dogs play in the snow.
    text2class_tsv   train.tsv    I have never seen a better film.<TAB>good

Records, with the vocabulary that Multi30k gives, and the labels bad and good:

    inputs    "Zwei Hunde spielen im Schnee."    [34, 265, 116, 37, 269, 2, 1]            1 = EOS
    targets   "Two dogs play in the snow."       [36, 236, 251, 4, 10, 198, 2, 1]
    targets   "good"                             [1]

Inputs and targets share about 8,192 subwords, of a file below 3 MB one for each 400 bytes, built
from the train split and kept in data_dir as `vocab.text2text_tsv.8192.subwords`; a file that is
there already is used.
Labels are those of the train split, sorted; they are kept in `labels.text2class_tsv.txt`. Training
drops lines of more than `max_length` subwords (256 in most hparams sets).

Without `dev` every 20th line of `train` is held out for it; `test` may be missing too. Empty lines
are left out. More than this, such as data of another form, takes ten lines of Python: see
text_problems.py.

T2T's way is parallel files, line n of one being the target of line n of the other:

    text2text_tmpdir[_tokens]    inputs.train.txt, targets.train.txt, inputs.eval.txt, …

`text2text_tmpdir` has about 32,768 subwords, `…_tokens` the words of `vocab.txt`, one a line, and
`<UNK>` for all others.
"""

import os
import sys
from collections.abc import Iterable, Iterator

from ut_keras.data import contract
from ut_keras.errors import DataError
from ut_keras.problems import parallel_text, problem, raw_text, text_problems
from ut_keras.problems.problem import Texts
from ut_keras.text import text_encoder, text_lines

_HELD_OUT_EVERY = 20
_BYTES_PER_SUBWORD = 400  # so that a model sees each often enough to learn it
_PARTS = {"train": "train", "dev": "eval"}  # of T2T's files


class OwnText(text_problems.Text2TextProblem):
    """Comes before a text problem in the list of bases."""

    num_train_shards = 10
    approx_vocab_size = 2**13
    extension = "txt"  # of the files
    fields: tuple[str, ...] = ("text",)  # what a line holds, between tabs

    def splits_to_generate(self, tmp_dir: str | None) -> tuple[str, ...]:
        return (*self.splits, "test") if self._has(tmp_dir, "test") else self.splits

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        self._check_files(data_dir, tmp_dir)
        self._train_bytes = os.path.getsize(self._path(tmp_dir, "train"))
        super().prepare(data_dir, tmp_dir)

    def _check_files(self, data_dir, tmp_dir):
        """Reads all of them to their end, before anything is written."""
        if not self._has(tmp_dir, "train"):
            raise DataError(
                f"tmp_dir must contain train.{self.extension} with lines "
                f"{'<TAB>'.join(self.fields)}; dev.{self.extension} and test.{self.extension} are "
                f"optional. Received: tmp_dir={tmp_dir!r} without it."
            )
        if not self._has(tmp_dir, "dev"):
            print(
                f"{self.name}: no dev.{self.extension}, using every {_HELD_OUT_EVERY}th line of "
                f"train.{self.extension} as the dev split"
            )
        for split in self.splits_to_generate(tmp_dir):
            if not sum(1 for _ in self.lines(split, tmp_dir)):
                name = split if split == "test" or self._has(tmp_dir, split) else "train"
                raise DataError(
                    f"The {split} split must have at least one line. Received: none in "
                    f"{self._path(tmp_dir, name)} "
                    f"(without dev.{self.extension}, train.{self.extension} requires at least "
                    f"{_HELD_OUT_EVERY} lines)."
                )

    def build_vocab(self, texts: Iterable[str]) -> text_problems.Vocabulary:
        if self.vocab_type != "subwords":
            return super().build_vocab(texts)
        size = self._train_bytes
        most = min(self.approx_vocab_size, 1 + size // _BYTES_PER_SUBWORD)
        encoder = text_encoder.SubwordTextEncoder.build_from_generator(texts, most)
        print(f"{self.name}: {encoder.vocab_size:,} subwords for {size:,} bytes", flush=True)
        return encoder

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for texts in self.lines(split, tmp_dir):
            yield dict(zip(("inputs", "targets")[-len(texts) :], texts, strict=True))

    def lines(self, split: str, tmp_dir: str | None) -> Iterator[tuple[str, ...]]:
        """Yields the lines of a split as tuples of their fields, stripped, none of them empty.

        Raises:
            DataError: names the line that is not as it should be.
        """
        if split == "test" or self._has(tmp_dir, "dev"):
            yield from self._read(tmp_dir, split)
            return
        for count, line in enumerate(self._read(tmp_dir, "train"), start=1):
            if (count % _HELD_OUT_EVERY == 0) == (split == "dev"):
                yield line

    def _path(self, tmp_dir, split):
        return os.path.join(tmp_dir or "", f"{split}.{self.extension}")

    def _has(self, tmp_dir, split):
        return os.path.isfile(self._path(tmp_dir, split))

    def _read(self, tmp_dir, split):
        path = self._path(tmp_dir, split)
        for number, text in enumerate(text_lines.lines(path), start=1):
            if text.strip():
                yield self._fields(text, path, number)

    def _fields(self, text, path, number):
        if len(self.fields) == 1:
            return (text.strip(),)
        parts = tuple(part.strip() for part in text.split("\t"))
        if len(parts) != len(self.fields) or not all(parts):
            expected = f"Every line must be {'<TAB>'.join(self.fields)}, none of them empty."
            raise contract.line_error(expected, path, number, text)
        return parts


@problem.register("text2text_tsv")
class Text2TextTsv(OwnText, text_problems.Text2TextProblem):
    """Pairs of texts from tab-separated files."""

    extension = "tsv"
    fields = ("source", "target")


@problem.register("text2self_txt")
class Text2SelfTxt(OwnText, text_problems.Text2SelfProblem):
    """Lines of text files."""


@problem.register("text2class_tsv")
class Text2ClassTsv(OwnText, text_problems.Text2ClassProblem):
    """Texts with labels from tab-separated files."""

    extension = "tsv"
    fields = ("text", "label")

    def _check_files(self, data_dir, tmp_dir):
        super()._check_files(data_dir, tmp_dir)
        labels = {
            split: {label for _, label in self.lines(split, tmp_dir)}
            for split in self.splits_to_generate(tmp_dir)
        }
        path = os.path.join(data_dir, self.labels_filename)
        known = {*text_encoder.read_lines(path)} if os.path.exists(path) else labels["train"]
        for split, found in labels.items():
            if unknown := found - known:
                raise DataError(
                    f"The labels of the {split} split must be labels of the train split, see "
                    f"{self.labels_filename}. Received: {', '.join(sorted(unknown)[:5])}."
                )


@problem.register("text2text_tmpdir")
class Text2textTmpdir(text_problems.Text2TextProblem):
    """Subwords."""

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        for split in self.splits:
            _paths(split, tmp_dir)
        super().prepare(data_dir, tmp_dir)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for source, target in parallel_text.read_pairs(_paths(split, tmp_dir)):
            yield {"inputs": source, "targets": target}


@problem.register("text2text_tmpdir_tokens")
class Text2textTmpdirTokens(Text2textTmpdir):
    """Words of a given vocabulary."""

    vocab_type = "tokens"
    approx_vocab_size = sys.maxsize  # all of them
    oov_token = "<UNK>"
    vocabulary_title = "vocab.txt"

    def texts_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        yield from raw_text.read_lines(_path(tmp_dir, "vocab.txt"))

    def build_vocab(self, texts: Iterable[str]) -> text_problems.Vocabulary:
        return text_encoder.TokenTextEncoder(tokens=[self.oov_token, *texts])


def _paths(split, tmp_dir):
    return [_path(tmp_dir, f"{side}.{_PARTS[split]}.txt") for side in ("inputs", "targets")]


def _path(tmp_dir, name):
    path = os.path.join(tmp_dir or "", name)
    if not os.path.isfile(path):
        raise DataError(f"tmp_dir={tmp_dir!r} must contain {name}. Received: no such file.")
    return path
