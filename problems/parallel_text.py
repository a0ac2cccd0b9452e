"""Parallel text: line n of one file is the translation of line n of the other.

    newstest2013.en   A Republican strategy to counter the re-election of Obama
    newstest2013.de   Eine republikanische Strategie, um der Wiederwahl von Obama entgegenzutreten

The text can come from:

- plain files, `.gz` files, or `.sgm` files, whose text is between `<seg …>` and `</seg>`;
- two columns of tables that are separated by tabs;
- tensorflow-datasets, if tmp_dir is its data folder and contains a prepared translation builder,
  such as `tmp_dir/wmt_t2t_translate/de-en/1.0.0`.

raw_text.py describes in which folders files are searched.
"""

import glob
import html
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import raw_text
from ut_keras.text import text_lines

_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg\s*>", re.DOTALL | re.IGNORECASE)
_SEGMENT_START = re.compile(r"<seg\b", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")  # version of a tensorflow-datasets builder


class Sides(NamedTuple):
    """A corpus with one file per side, in archives or as separate downloads."""

    # The archives of source and target, or the source and target files.
    raw_files: tuple[download.RawFile, ...]
    # Possible names of each file, beginning with the name in the file's archive. A tuple of names
    # is empty if the raw file is the text file instead of an archive.
    names: tuple[tuple[str, ...], ...] = ((), ())

    def find(self, tmp_dir: str | None) -> tuple[str, ...]:
        """Return the paths (source, target). Missing files are downloaded.

        Files from the same location are preferred. Files with the same name can differ: the English
        side of newstest2014 is another text for German than for French.

        Raises:
            DataError: if a file is not found and cannot be downloaded.
        """
        if not all(self.names):
            return tuple(raw_text.find(tmp_dir, raw, *names) for raw, names in self._sides())
        if found := raw_text.find_local_group(tmp_dir, *self):
            return tuple(found)
        paths = tuple(raw_text.find(tmp_dir, raw, *names) for raw, names in self._sides())
        # The archive may have been unpacked now.
        return tuple(raw_text.find_local_group(tmp_dir, *self)) or paths

    def missing(self, tmp_dir: str | None) -> list[download.RawFile]:
        """Return the raw files that must be downloaded."""
        return [
            raw for raw, names in self._sides() if not raw_text.is_available(tmp_dir, raw, *names)
        ]

    def pairs(self, tmp_dir: str | None) -> Iterator[tuple[str, ...]]:
        """Yield stripped pairs (source, target), in which either text may be empty.

        Raises:
            DataError: in the same cases as `find` and `read_pairs`.
        """
        return read_pairs(self.find(tmp_dir))

    def texts_for_vocab(self, tmp_dir: str | None) -> Iterator[str]:
        """Yield the texts from which T2T builds a vocabulary, about 1 MB per side."""
        return itertools.chain.from_iterable(map(lines_for_vocab, self.find(tmp_dir)))

    def _sides(self):
        return zip(self.raw_files, self.names, strict=True)


class Tables(NamedTuple):
    """A corpus in two columns of tables in an archive, with the methods of `Sides`."""

    archive: download.RawFile
    pattern: str  # pattern of the paths of the tables in the archive
    source: int  # index of the source column, from 0
    target: int  # index of the target column

    @property
    def raw_files(self) -> tuple[download.RawFile, ...]:
        return (self.archive,)

    def find(self, tmp_dir: str | None) -> tuple[str, ...]:
        return tuple(raw_text.find_all(tmp_dir, self.archive, self.pattern))

    def missing(self, tmp_dir: str | None) -> list[download.RawFile]:
        is_available = raw_text.is_available(tmp_dir, self.archive, self.pattern)
        return [] if is_available else [self.archive]

    def pairs(self, tmp_dir: str | None) -> Iterator[tuple[str, ...]]:
        paths = self.find(tmp_dir)
        lines = itertools.chain.from_iterable(map(raw_text.lines, paths))
        return map(self._columns, lines)

    def texts_for_vocab(self, tmp_dir: str | None) -> Iterator[str]:
        paths = self.find(tmp_dir)
        for path in paths:
            for line in lines_for_vocab(path, budget=2e6 / len(paths)):
                yield from self._columns(line)

    def _columns(self, line):
        """Return the two sides of a line. A side is "" if its column is missing."""
        columns = line.split("\t")
        sides = (self.source, self.target)
        return tuple(columns[i].strip() if i < len(columns) else "" for i in sides)


Corpus = Sides | Tables


def read_pairs(paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield stripped pairs (source, target), in which either text may be empty.

    Raises:
        DataError: if a line is not UTF-8, or if one file has more lines than the other.
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
    """Yield evenly spaced lines for a vocabulary, about `budget` characters in total.

    References: T2T `generator_utils.generate_lines_for_vocab`.
    """
    with text_lines.opened(path) as file:
        size = file.seek(0, os.SEEK_END)  # for a `.gz` file, this is the unpacked size
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


def segments(lines: Iterable[str], path: str) -> list[str]:
    """Return the segments of an `.sgm` file, the texts between `<seg …>` and `</seg>`.

    A segment may take several lines, which become one line. A line may have several segments.

    Args:
        lines: iterable of str, the stripped lines of the file.
        path: str. The file, for the error message.

    Raises:
        DataError: if a segment has no end.
    """
    text = _COMMENT.sub("", "\n".join(lines))
    found = [match[1].replace("\n", " ").strip() for match in _SEGMENT.finditer(text)]
    if (number := len(_SEGMENT_START.findall(text))) != len(found):
        raise DataError(
            f"Each <seg …> must have a </seg> before the next <seg …>. Received: {path} with "
            f"{number} times <seg …> and {len(found)} segments."
        )
    return found


def find_builder(tmp_dir: str | None, name: str) -> str | None:
    """Return the folder of a tensorflow-datasets builder's newest version, or None.

    Args:
        tmp_dir: str. The data folder of tensorflow-datasets, in which the builder is prepared.
        name: str. The builder, such as "wmt_t2t_translate/de-en".
    """
    pattern = os.path.join(glob.escape(tmp_dir or ""), name, "*", "dataset_info.json")
    folders = {}
    for path in glob.glob(pattern):
        folder = os.path.dirname(path)
        # The pattern does not match the folders of unfinished versions.
        if match := _VERSION.fullmatch(os.path.basename(folder)):
            folders[tuple(map(int, match.groups()))] = folder
    return folders[max(folders)] if folders else None


def read_builder(
    folder: str, split: str, source: str, target: str, max_examples: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the pairs (source, target) of a split of a tensorflow-datasets builder.

    Args:
        folder: str. The folder of the builder.
        split: str. The name of the split in tensorflow-datasets.
        source: str. The source language.
        target: str. The target language.
        max_examples: int. If given, this is the approximate number of evenly spaced examples to
            read.

    Raises:
        DataError: if tensorflow-datasets cannot read the format of the files on this machine.
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
    """Return every `step`-th example of a split of a builder."""
    if builder.info.file_format.value == "array_record":  # this format allows only random access
        rows = builder.as_data_source(split=split)
        return (rows[number] for number in range(0, len(rows), step))
    return builder.as_dataset(split=split).shard(step, 0).as_numpy_iterator()


def _read_side(path):
    lines = raw_text.read_lines(path)
    if not path.endswith(".sgm"):
        return lines
    return (html.unescape(segment).strip() for segment in segments(lines, path))
