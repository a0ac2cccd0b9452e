"""Problems from your own text files in tmp_dir: UTF-8, one example per line.

    text2text_tsv    train.tsv    Zwei Hunde spielen im Schnee.<TAB>Two dogs play in the snow.
    text2self_txt    train.txt    Two dogs play in the snow.
    text2class_tsv   train.tsv    I have never seen a better film.<TAB>good

Put the files `train`, `dev` and `test` with this extension into tmp_dir. Examples of records, with
a vocabulary built from Multi30k and the labels "bad" and "good":

    inputs    "Zwei Hunde spielen im Schnee."    [34, 265, 116, 37, 269, 2, 1]            1 = EOS
    targets   "Two dogs play in the snow."       [36, 236, 251, 4, 10, 198, 2, 1]
    targets   "good"                             [1]

- **Vocabulary.** Inputs and targets share about 8,192 subwords. If the train file is smaller than
  3 MB, the vocabulary is smaller too, with about one subword per 400 bytes of the file. The
  vocabulary is built from the train split and stored in data_dir as
  `vocab.text2text_tsv.8192.subwords`. If the file exists already, it is used.
- **Labels** are the sorted labels of the train split, stored in `labels.text2class_tsv.txt`.
- **Length.** Training drops lines with more than `max_length` subwords (256 in most hparams sets),
  and prints how many examples it drops.
- **Splits.** If there is no `dev` file, every 20th line of `train` becomes the dev split. `test` is
  optional. Empty lines are skipped.

Other formats take about ten lines of Python, see text_problems.py. docs/own_data.md shows how to
convert CSV files and how to get a larger vocabulary.

T2T's problems for your own text read parallel files, in which line n of the targets belongs to line
n of the inputs:

    text2text_tmpdir[_tokens]    inputs.train.txt, targets.train.txt, inputs.eval.txt, …

`text2text_tmpdir` has about 32,768 subwords. `text2text_tmpdir_tokens` uses the words in
`vocab.txt`, one per line, and `<UNK>` for all other words.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator

from ut_keras.data import contract
from ut_keras.errors import DataError
from ut_keras.problems import parallel_text, problem, raw_text, text_problems
from ut_keras.problems.problem import Texts
from ut_keras.text import text_encoder, text_lines

_HELD_OUT_EVERY = 20
# An evaluation split may have a few lines of the train split, such as short sentences. Data
# generation prints a note if the number and the share of repeated lines exceed these values.
_MOST_REPEATED, _MOST_REPEATED_SHARE = 4, 0.1
_PASS_FOLDER = "Pass the folder (--tmp_dir; in Python, tmp_dir)."
_CONVERT = "docs/own_data.md shows how to convert CSV to TSV."
# Words of column names. A first line of these words is probably a header.
_COLUMN_NAMES = {
    *("source", "target", "src", "tgt", "input", "inputs", "output", "outputs", "targets"),
    *("text", "sentence", "label", "labels", "class", "category", "question", "answer"),
}
# Labels that pandas and other programs write for a missing value.
_MISSING = {"nan", "nat", "<na>"}
_MAX_LABELS = 10  # maximum number of labels in a line
BYTES_PER_SUBWORD = 400  # with this number, each subword occurs often enough to be learned
_PARTS = {"train": "train", "dev": "eval"}  # dict from split to a part of T2T's file names


class OwnText(text_problems.Text2TextProblem):
    """A mixin that reads the user's files.

    This class must precede the text problem in the list of bases.
    """

    optional_splits = ("test",)
    num_train_shards = 10
    approx_vocab_size = 2**13
    extension = "txt"  # extension of the files
    fields: tuple[str, ...] = ("text",)  # fields of a line, separated by tabs

    def user_files(self, split: str, tmp_dir: str | None) -> tuple[str, ...]:
        # Without a dev file, the lines of the train file are divided into two splits.
        is_divided = split != "test" and not self._has(tmp_dir, "dev")
        names = ("train", "dev") if is_divided else (split,)
        return tuple(self._path(tmp_dir, name) for name in names)

    def splits_to_generate(self, tmp_dir: str | None) -> tuple[str, ...]:
        return (*self.splits, "test") if self._has(tmp_dir, "test") else self.splits

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        self._check_files(data_dir, tmp_dir)
        self._train_bytes = os.path.getsize(self._path(tmp_dir, "train"))
        super().prepare(data_dir, tmp_dir)

    def _check_files(self, data_dir, tmp_dir):
        """Read all files completely, so that errors occur before anything is written."""
        if not self._has(tmp_dir, "train"):
            raise DataError(
                f"tmp_dir must contain train.{self.extension} with lines "
                f"{'<TAB>'.join(self.fields)}; dev.{self.extension} and test.{self.extension} are "
                f"optional. {_PASS_FOLDER} Received: {_folder(tmp_dir)}{_similar_files(tmp_dir)}."
                f"{self._csv_hint(tmp_dir)}"
            )
        if not self._has(tmp_dir, "dev"):
            print(
                f"{self.name}: no dev.{self.extension}, using every {_HELD_OUT_EVERY}th line of "
                f"train.{self.extension} as the dev split"
            )
        for split in self.splits_to_generate(tmp_dir):
            number = returns = quoted = doubled = 0
            for fields in self.lines(split, tmp_dir):
                number += 1
                returns += any("\r" in field for field in fields)
                in_quotes = [field for field in fields if _is_quoted(field)]
                quoted += bool(in_quotes)
                doubled += any('""' in field[1:-1] for field in in_quotes)
            title = f"{self.name}, {split} split"
            if note := text_lines.carriage_return_note(returns, title):
                print(f"note: {note}", flush=True)
            if doubled or 0 < number <= 2 * quoted:  # a few texts may be in quotes on purpose
                print(f"note: {_quote_note(quoted, title)}", flush=True)
            if not number:
                name = split if split == "test" or self._has(tmp_dir, split) else "train"
                raise DataError(
                    f"The {split} split must have at least one line. Received: none in "
                    f"{self._path(tmp_dir, name)} "
                    f"(without dev.{self.extension}, train.{self.extension} requires at least "
                    f"{_HELD_OUT_EVERY} lines)."
                )

        for split in self.splits_to_generate(tmp_dir):
            self._note_header(split, tmp_dir)
        self._note_repeated_lines(tmp_dir)

    def _note_repeated_lines(self, tmp_dir):
        """Print a note if many lines for evaluation are also lines of the train split."""
        # The train file may be large, so only the hashes of the other splits are kept.
        hashes = {
            split: [hash(fields) for fields in self.lines(split, tmp_dir)]
            for split in self.splits_to_generate(tmp_dir)
            if split != "train"
        }
        others = {number for numbers in hashes.values() for number in numbers}
        train = others.intersection(hash(fields) for fields in self.lines("train", tmp_dir))
        for split, numbers in hashes.items():
            found = [number in train for number in numbers]
            if sum(found) > max(_MOST_REPEATED, len(found) * _MOST_REPEATED_SHARE):
                print(
                    f"note: {sum(found):,} of {len(found):,} lines of the {split} split are also "
                    "in the train split. Results on this split do not show how good the model is "
                    "on new texts. Remove the repeated lines.",
                    flush=True,
                )

    def _note_header(self, split, tmp_dir):
        """Print a note if the first line of a file consists of names of columns."""
        if len(self.fields) == 1 or not self._has(tmp_dir, split):
            return
        first = next(self._read(tmp_dir, split))
        if all(field.strip('"').lower() in _COLUMN_NAMES for field in first):
            print(
                f"note: the first line of {self._path(tmp_dir, split)} seems to be a header: "
                f"{'<TAB>'.join(first)}. It is used as an example. Remove it from the file if it "
                "is a header.",
                flush=True,
            )

    def _csv_hint(self, tmp_dir):
        """Return a sentence about the conversion if the folder has a CSV file, or ""."""
        folder = tmp_dir or ""
        has_csv = folder.endswith(".csv") or os.path.isfile(os.path.join(folder, "train.csv"))
        return f" {_CONVERT}" if has_csv and self.extension == "tsv" else ""

    def build_vocab(self, texts: Iterable[str]) -> text_problems.Vocabulary:
        if self.vocab_type != "subwords":
            return super().build_vocab(texts)
        size = self._train_bytes
        most = min(self.approx_vocab_size, 1 + size // BYTES_PER_SUBWORD)
        encoder = text_encoder.SubwordTextEncoder.build_from_generator(texts, most)
        print(f"{self.name}: {encoder.vocab_size:,} subwords for {size:,} bytes", flush=True)
        return encoder

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for texts in self.lines(split, tmp_dir):
            yield dict(zip(("inputs", "targets")[-len(texts) :], texts, strict=True))

    def lines(self, split: str, tmp_dir: str | None) -> Iterator[tuple[str, ...]]:
        """Yield the lines of a split as tuples of stripped fields.

        Raises:
            DataError: if a line does not have exactly the fields in `fields`, or if a field is
                empty. The error message names the line.
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
            expected = f"Every line must be {'<TAB>'.join(self.fields)}, without empty fields."
            if "\t" not in text and any(delimiter in text for delimiter in ",;|"):
                expected += f" This line has no tab. {_CONVERT}"
            raise contract.line_error(expected, path, number, text)
        return parts


@problem.register("text2text_tsv")
class Text2TextTsv(OwnText, text_problems.Text2TextProblem):
    """Pairs of texts. The files have a tab between inputs and targets."""

    extension = "tsv"
    fields = ("source", "target")


@problem.register("text2self_txt")
class Text2SelfTxt(OwnText, text_problems.Text2SelfProblem):
    """A language model problem. Each line of a text file is one example."""


@problem.register("text2class_tsv")
class Text2ClassTsv(OwnText, text_problems.Text2ClassProblem):
    """Texts with class labels. The files have a tab between text and label."""

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
                    f"{_numbers_hint(known | unknown)}"
                )
        shown = sorted(known)
        more = f" and {len(shown) - _MAX_LABELS:,} more" if len(shown) > _MAX_LABELS else ""
        listed = ", ".join(contract.shortened(label) for label in shown[:_MAX_LABELS])
        noun = "label" if len(shown) == 1 else "labels"
        print(f"{self.name}: {len(shown):,} {noun}: {listed}{more}", flush=True)
        for note in (*_label_notes(shown), *self._order_notes(shown, tmp_dir)):
            print(f"note: {note}", flush=True)

    def _order_notes(self, labels, tmp_dir):
        """Return a note if the lines of the train split seem to be label<TAB>text."""
        number = 0
        texts: set[str] = set()
        for text, _ in self.lines("train", tmp_dir):
            number += 1
            if len(texts) <= len(labels):
                texts.add(text)
        # A text usually has one label, so a file has no more labels than different texts.
        if len(labels) <= _MAX_LABELS or len(labels) <= min(number // 2, len(texts)):
            return []
        return [
            f"the {number:,} lines of the train split have {len(labels):,} labels. Check that the "
            f"label is the last field: each line must be {'<TAB>'.join(self.fields)}."
            f"{_numbers_hint(labels)}"
        ]


def _label_notes(labels):
    """Return notes on labels that are probably mistakes in the user's file.

    Args:
        labels: list of str, sorted.
    """
    notes = []
    if len(labels) == 1:
        notes.append(f"all lines have the label {labels[0]!r}, so there is nothing to learn")
    if missing := [label for label in labels if label.lower() in _MISSING]:
        notes.append(
            f"the label {missing[0]!r} seems to be a missing value, but it counts as a class. "
            "Remove these lines if they have no label."
        )
    by_value: dict[object, list[str]] = {}
    for label in labels:
        by_value.setdefault(_value(label), []).append(label)
    same = [found for found in by_value.values() if len(found) > 1]
    if same:
        notes.append(
            f"the labels {' and '.join(map(repr, same[0][:3]))} seem to mean the same, but they "
            "are different classes. If they are one class, write them in the same way."
        )
    return notes


def _value(label):
    """Return a label as a number, or in lower case if it is not a number."""
    with contextlib.suppress(ValueError):
        number = float(label)
        if number == number:  # not NaN
            return number
    return label.casefold()


def _numbers_hint(labels):
    """Return a hint for error messages if all labels are numbers, otherwise ""."""
    if not all(re.fullmatch(r"[-+]?[0-9]*[.,]?[0-9]+(e[-+]?[0-9]+)?", label) for label in labels):
        return ""
    return (
        " All labels are numbers. The model learns each number as a class of its own and cannot "
        "predict other numbers. Replace the numbers by a few classes, such as low and high."
    )


@problem.register("text2text_tmpdir")
class Text2textTmpdir(text_problems.Text2TextProblem):
    """Parallel text files with a vocabulary of subwords."""

    def user_files(self, split: str, tmp_dir: str | None) -> tuple[str, ...]:
        return tuple(os.path.join(tmp_dir or "", name) for name in _names(_PARTS[split]))

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        for split in self.splits:
            _paths(split, tmp_dir)
        super().prepare(data_dir, tmp_dir)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for source, target in parallel_text.read_pairs(_paths(split, tmp_dir)):
            yield {"inputs": source, "targets": target}


@problem.register("text2text_tmpdir_tokens")
class Text2textTmpdirTokens(Text2textTmpdir):
    """Parallel text files with the words of a given vocabulary."""

    vocab_type = "tokens"
    approx_vocab_size = sys.maxsize  # this value means that there is no limit
    oov_token = "<UNK>"
    vocabulary_title = "vocab.txt"

    def user_files(self, split: str, tmp_dir: str | None) -> tuple[str, ...]:
        return (*super().user_files(split, tmp_dir), os.path.join(tmp_dir or "", "vocab.txt"))

    def side_files_of_samples(self) -> tuple[str, ...]:
        return ()

    def texts_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        yield from raw_text.read_lines(_path(tmp_dir, "vocab.txt"))

    def build_vocab(self, texts: Iterable[str]) -> text_problems.Vocabulary:
        return text_encoder.TokenTextEncoder(tokens=[self.oov_token, *texts])


def _paths(split, tmp_dir):
    return [_path(tmp_dir, name) for name in _names(_PARTS[split])]


def _names(part):
    return [f"{side}.{part}.txt" for side in ("inputs", "targets")]


def _path(tmp_dir, name):
    path = os.path.join(tmp_dir or "", name)
    if not os.path.isfile(path):
        raise DataError(
            f"tmp_dir must contain {name}. {_PASS_FOLDER} Received: {_folder(tmp_dir)}."
        )
    return path


def _is_quoted(field):
    return len(field) > 1 and field[0] == field[-1] == '"'


def _quote_note(lines, title):
    """Return the note that quotes around fields are a part of the text."""
    count = "1 line has a field" if lines == 1 else f"{lines:,} lines have fields"
    return (
        f"{title}: {count} in double quotes. The quotes are a part of the text, unlike in a CSV "
        "file."
    )


def _similar_files(tmp_dir):
    """Return ", but with NAMES" for files such as train.csv, or "" if there are none."""
    with contextlib.suppress(OSError):
        names = sorted(n for n in os.listdir(tmp_dir or "") if n.rpartition(".")[0] == "train")
        if names:
            return f", but with {', '.join(names)}"
    return ""


def _folder(tmp_dir):
    if not tmp_dir:
        return f"tmp_dir={tmp_dir!r}"
    if os.path.isdir(tmp_dir):
        state = "without this file"
    elif os.path.exists(tmp_dir):
        state = "which is a file"
    else:
        state = "which does not exist"
    return f"tmp_dir={tmp_dir!r}, {state}"
