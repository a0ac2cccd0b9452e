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
from collections.abc import Iterator
from typing import NamedTuple

from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import raw_text

_SEGMENT = re.compile(r"<seg[^>]*>(.*)</seg>$")


class Files(NamedTuple):
    """The two sides of a corpus.

    Fields:
        archive: `RawFile` that has both.
        source, target: tuple of str, the names that they may have, that in the archive first.
    """

    archive: download.RawFile
    source: tuple[str, ...]
    target: tuple[str, ...]

    @property
    def raw_files(self) -> tuple[download.RawFile, ...]:
        return (self.archive,)


class Sides(NamedTuple):
    """A corpus whose sides are downloaded one by one.

    Fields:
        source, target: `RawFile`.
    """

    source: download.RawFile
    target: download.RawFile

    @property
    def raw_files(self) -> tuple[download.RawFile, ...]:
        return tuple(self)


class Tables(NamedTuple):
    """A corpus whose sides are columns of the tables in an archive.

    Fields:
        archive: `RawFile`.
        pattern: str. Fits the tables in it.
        source, target: int. The columns, from 0 on.
    """

    archive: download.RawFile
    pattern: str
    source: int
    target: int

    @property
    def raw_files(self) -> tuple[download.RawFile, ...]:
        return (self.archive,)


Corpus = Files | Sides | Tables


def find(tmp_dir: str | None, files: Corpus) -> tuple[str, ...]:
    """Returns the paths (source, target), or those of tables, after a download if need be.

    Raises:
        DataError: if they cannot be had.
    """
    if isinstance(files, Tables):
        return tuple(raw_text.find_all(tmp_dir, files.archive, files.pattern))
    if isinstance(files, Sides):
        return tuple(download.fetch(tmp_dir, side) for side in files)
    sides = (files.source, files.target)
    return tuple(raw_text.find(tmp_dir, files.archive, *names) for names in sides)


def is_at_hand(tmp_dir: str | None, files: Corpus) -> bool:
    """Whether nothing has to be downloaded."""
    if isinstance(files, Tables):
        return raw_text.is_at_hand(tmp_dir, files.archive, files.pattern)
    if isinstance(files, Sides):
        return all(os.path.isfile(os.path.join(tmp_dir or "", side.name)) for side in files)
    sides = (files.source, files.target)
    return all(raw_text.is_at_hand(tmp_dir, files.archive, *names) for names in sides)


def pairs(tmp_dir: str | None, files: Corpus) -> Iterator[tuple[str, str]]:
    """Yields (source, target) of a corpus, stripped; either may be empty.

    Raises:
        DataError: see `find`, `read_pairs`.
    """
    paths = find(tmp_dir, files)
    if not isinstance(files, Tables):
        yield from read_pairs(paths)
        return
    for path in paths:
        for line in raw_text.read_lines(path):
            yield _columns(line, files)


def texts_for_vocab(tmp_dir: str | None, files: Corpus) -> Iterator[str]:
    """Yields the texts of a corpus that T2T builds a vocabulary from: about 1 MB of each side."""
    paths = find(tmp_dir, files)
    if not isinstance(files, Tables):
        for path in paths:
            yield from lines_for_vocab(path)
        return
    for path in paths:
        for line in lines_for_vocab(path, budget=2e6 / len(paths)):
            yield from _columns(line, files)


def _columns(line, tables):
    """The two sides of a line; "" where it has fewer columns."""
    columns = line.split("\t")
    return tuple(
        columns[i].strip() if i < len(columns) else "" for i in (tables.source, tables.target)
    )


def read_pairs(paths: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yields (source, target), stripped; either may be empty.

    Raises:
        DataError: if a line is not UTF-8, or one file has more lines than the other.
    """
    sides = (_read_side(path) for path in paths)
    for number, pair in enumerate(itertools.zip_longest(*sides), start=1):
        if None in pair:
            shorter, longer = paths if pair[0] is None else paths[::-1]
            raise DataError(
                f"Both sides must have the same number of lines. Received: {shorter} with "
                f"{number - 1}, {longer} with more."
            )
        yield pair


def lines_for_vocab(path: str, budget: float = 1e6) -> Iterator[str]:
    """Yields the lines of a file that T2T builds a vocabulary from: about 1 MB, evenly spread.

    References: T2T `generator_utils.generate_lines_for_vocab`.
    """
    skipped_between = int(raw_text.size(path) / budget / 2)
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
    """Returns the folder of a prepared tensorflow-datasets builder, its newest version, or None.

    Args:
        tmp_dir: str. Its data folder.
        name: str, such as "wmt_t2t_translate/de-en".
    """
    pattern = os.path.join(glob.escape(tmp_dir or ""), name, "*", "dataset_info.json")
    found = sorted(glob.glob(pattern))
    return os.path.dirname(found[-1]) if found else None


def read_builder(
    folder: str, split: str, source: str, target: str, max_examples: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yields the (source, target) texts of a split of a prepared tensorflow-datasets builder.

    With `max_examples` only about so many, evenly spread.
    """
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(folder)
    step = 1
    if max_examples:
        step = -(-builder.info.splits[split].num_examples // max_examples)
    for example in builder.as_dataset(split=split).shard(step, 0).as_numpy_iterator():
        yield tuple(example[language].decode("utf-8").strip() for language in (source, target))


def _read_side(path):
    lines = raw_text.read_lines(path)
    if not path.endswith(".sgm"):
        return lines
    segments = (_SEGMENT.match(line) for line in lines)
    return (html.unescape(segment[1]).strip() for segment in segments if segment)
