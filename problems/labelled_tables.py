"""Texts with a class, in tables with tabs: what GLUE's tasks and their like are read from.

index  question                        sentence                              label
0      When did the third … begin?     As of that day, the new constitution  not_entailment
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ut_keras.errors import DataError
from ut_keras.problems import raw_text, text_problems
from ut_keras.text import text_encoder

_LM1B = "languagemodel_lm1b32k"


class LabelledTables(raw_text.OfArchive, text_problems.TextConcat2ClassProblem):
    """Texts in columns of a row, with a class in another.

    Attributes:
        text_columns: tuple of int, from 0 on.
        label_column: int. It has the name of a class, or its number.
        has_header: bool. Whether the first row has the names of the columns.
        both_orders: bool. Whether a row of two texts gives a second sample, with them exchanged.
        not_labelled: str. In the label's place, where there is none; such rows are left out.
    """

    class_labels: tuple[str, ...]
    text_columns: tuple[int, ...] = (1, 2)
    label_column = 3
    has_header = True
    both_orders = False
    not_labelled: str | None = None
    num_train_shards = 10
    approx_vocab_size = 2**13

    def generate_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterator[dict[str, Any]]:
        path = self.path(split, tmp_dir)
        for number, line in enumerate(raw_text.read_lines(path), start=1):
            if number == 1 and self.has_header:
                continue
            try:
                yield from self.samples(line.split("\t"), split, tmp_dir)
            except IndexError as error:
                raise DataError(
                    f"A row must have texts in columns {self.text_columns} and one of "
                    f"{', '.join(self.class_labels)}, or its number, in column "
                    f"{self.label_column}. Received: {path}, line {number}: {line[:80]!r}."
                ) from error

    def samples(self, row: list[str], split: str, tmp_dir: str | None) -> Iterator[dict[str, Any]]:
        """Yields the samples of a row, a list of str."""
        texts = tuple(row[i] for i in self.text_columns)
        label = row[self.label_column]
        if label == self.not_labelled:
            self.left_out["without a label"] += 1
            return
        if label.isdigit():
            label = self.class_labels[int(label)]
        if label not in self.class_labels:
            raise IndexError(label)
        for inputs in (texts, texts[::-1]) if self.both_orders else (texts,):
            yield {"inputs": inputs, "targets": label}


class SharedVocab(text_problems.Text2TextProblem):
    """Comes before a problem: its vocabulary is that of `languagemodel_lm1b32k`, as T2T's is."""

    vocab_name = _LM1B
    approx_vocab_size = 2**15

    def build_vocab(
        self, texts: Iterable[str]
    ) -> text_encoder.SubwordTextEncoder | text_encoder.TokenTextEncoder:
        raise DataError(
            f"{self.name} needs {self.vocab_filename} in data_dir, the vocabulary of another "
            f"problem. Received: a folder without it; generate {_LM1B} there first."
        )
