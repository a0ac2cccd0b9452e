"""Parallel text: line n of one file is the translation of line n of the other.

    newstest2013.en   A Republican strategy to counter the re-election of Obama
    newstest2013.de   Eine republikanische Strategie, um der Wiederwahl von Obama entgegenzutreten

Files may be plain, `.gz`, or `.sgm`, of which the text between `<seg …>` and `</seg>` is taken. Or
both sides are columns of tables, with tabs between them. See raw_text.py for where they are looked
for. Or they come from tensorflow-datasets: its data folder is tmp_dir, and a translation builder is
prepared there: `tmp_dir/wmt_t2t_translate/de-en/1.0.0`.
"""

import glob
import html
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import raw_text
from ut_keras.text import text_lines

_SEGMENT = re.compile(r"<seg[^>]*>(.*)</seg>$")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")  # of a builder of tensorflow-datasets


class Sides(NamedTuple):
    """A corpus of a file for each side, in one archive or downloaded one by one."""

    raw_files: tuple[download.RawFile, ...]  # what source and target are in, or are
    # The names that each may have, that in its archive first; none of a file that is no archive.
    names: tuple[tuple[str, ...], ...] = ((), ())

    def find(self, tmp_dir: str | None) -> tuple[str, ...]:
        """Returns the paths (source, target), after a download if need be.

        Raises:
            DataError: if they cannot be had.
        """
        return tuple(raw_text.find(tmp_dir, raw, *names) for raw, names in self._sides())

    def is_available(self, tmp_dir: str | None) -> bool:
        """Whether nothing has to be downloaded."""
        return all(raw_text.is_available(tmp_dir, raw, *names) for raw, names in self._sides())

    def pairs(self, tmp_dir: str | None) -> Iterator[tuple[str, ...]]:
        """Yields (source, target), stripped; either may be empty.

        Raises:
            DataError: see `find`, `read_pairs`.
        """
        return read_pairs(self.find(tmp_dir))

    def texts_for_vocab(self, tmp_dir: str | None) -> Iterator[str]:
        """Yields the texts that T2T builds a vocabulary from: about 1 MB of each side."""
        return itertools.chain.from_iterable(map(lines_for_vocab, self.find(tmp_dir)))

    def _sides(self):
        return zip(self.raw_files, self.names, strict=True)


class Tables(NamedTuple):
    """A corpus whose sides are columns of the tables in an archive; methods as of `Sides`."""

    archive: download.RawFile
    pattern: str  # fits the tables in it
    source: int  # the column, from 0 on
    target: int

    @property
    def raw_files(self) -> tuple[download.RawFile, ...]:
        return (self.archive,)

    def find(self, tmp_dir: str | None) -> tuple[str, ...]:
        return tuple(raw_text.find_all(tmp_dir, self.archive, self.pattern))

    def is_available(self, tmp_dir: str | None) -> bool:
        return raw_text.is_available(tmp_dir, self.archive, self.pattern)

    def pairs(self, tmp_dir: str | None) -> Iterator[tuple[str, ...]]:
        paths = self.find(tmp_dir)
        lines = (raw_text.with_text(text_lines.lines(path), path) for path in paths)
        return map(self._columns, itertools.chain.from_iterable(lines))

    def texts_for_vocab(self, tmp_dir: str | None) -> Iterator[str]:
        paths = self.find(tmp_dir)
        for path in paths:
            for line in lines_for_vocab(path, budget=2e6 / len(paths)):
                yield from self._columns(line)

    def _columns(self, line):
        """The two sides of a line; "" where it has fewer columns."""
        columns = line.split("\t")
        sides = (self.source, self.target)
        return tuple(columns[i].strip() if i < len(columns) else "" for i in sides)


Corpus = Sides | Tables


def read_pairs(paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields (source, target), stripped; either may be empty.

    Raises:
        DataError: if a line is not UTF-8, or one file has more lines than the other.
    """
    sides = (_read_side(path) for path in paths)
    for number, pair in enumerate(itertools.zip_longest(*sides), start=1):
        if None in pair:
            shorter, longer = paths if pair[0] is None else paths[::-1]
            raise DataError(
                f"Both files must have the same number of lines. Received: {shorter} with "
                f"{number - 1} lines, {longer} with more."
            )
        yield pair


def lines_for_vocab(path: str, budget: float = 1e6) -> Iterator[str]:
    """Yields the lines of a file that T2T builds a vocabulary from: about 1 MB, evenly spread.

    References: T2T `generator_utils.generate_lines_for_vocab`.
    """
    with text_lines.opened(path) as file:
        size = file.seek(0, os.SEEK_END)  # of a `.gz` file, unpacked
    skipped_between = int(size / budget / 2)
    skipped = 0
    for line in raw_text.read_lines(path):
        if skipped < skipped_between:
            skipped += 1
            continue
        if budget <= 0:
            return
        budget -= len(line)
        skipped = 0
        yield line


def find_builder(tmp_dir: str | None, name: str) -> str | None:
    """Returns the newest version's folder of a tensorflow-datasets builder, or None.

    Its name is such as "wmt_t2t_translate/de-en"; it is prepared in tmp_dir.
    """
    pattern = os.path.join(glob.escape(tmp_dir or ""), name, "*", "dataset_info.json")
    folders = {}
    for path in glob.glob(pattern):
        folder = os.path.dirname(path)
        if match := _VERSION.fullmatch(os.path.basename(folder)):  # none that is still written to
            folders[tuple(map(int, match.groups()))] = folder
    return folders[max(folders)] if folders else None


def read_builder(
    folder: str, split: str, source: str, target: str, max_examples: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yields the (source, target) texts of a split of a prepared tensorflow-datasets builder.

    With `max_examples` only about so many, evenly spread.

    Raises:
        DataError: if tensorflow-datasets cannot read the format of the files here.
    """
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(folder)
    step = 1
    if max_examples:
        step = -(-builder.info.splits[split].num_examples // max_examples)
    try:
        examples = _examples(builder, split, step)
    except (NotImplementedError, ImportError) as error:
        raise DataError(
            f"{folder} must contain files that tensorflow-datasets can read, such as tfrecord. "
            f"Received: {builder.info.file_format.value}: {str(error).splitlines()[0]}"
        ) from error
    for example in examples:
        yield tuple(example[language].decode("utf-8").strip() for language in (source, target))


def _examples(builder, split, step):
    """Every `step`-th example of a split of a builder."""
    if builder.info.file_format.value == "array_record":  # which is read by random access only
        rows = builder.as_data_source(split=split)
        return (rows[number] for number in range(0, len(rows), step))
    return builder.as_dataset(split=split).shard(step, 0).as_numpy_iterator()


def _read_side(path):
    lines = raw_text.read_lines(path)
    if not path.endswith(".sgm"):
        return lines
    segments = (_SEGMENT.match(line) for line in lines)
    return (html.unescape(segment[1]).strip() for segment in segments if segment)
