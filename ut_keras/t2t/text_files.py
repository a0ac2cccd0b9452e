"""The readers of T2T's data_generators.text_problems: from files of text to samples.

References: tensor2tensor/data_generators/text_problems.py.
"""

import glob
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ut_keras.errors import DataError

_EXTRA_LABEL = re.compile(r"(.*)\tExtra_Label: (.*)")


def txt_line_iterator(txt_path: str) -> Iterator[str]:
    """Yields the lines of a file, stripped."""
    with open(txt_path, encoding="utf-8") as file:
        for line in file:
            yield line.strip()


def txt_line_sharded_iterator(txt_pattern: str) -> Iterator[str]:
    """Yields the lines of the files that fit a pattern."""
    for path in sorted(glob.glob(txt_pattern)):
        yield from txt_line_iterator(path)


def txt_and_label_iterator(txt_path: str) -> Iterator[list[Any]]:
    """Yields [text, int] of lines "text TAB Extra_Label: int"."""
    for line in txt_line_iterator(txt_path):
        found = _EXTRA_LABEL.search(line)
        if not found:
            raise DataError(
                f"Every line must end with a TAB and 'Extra_Label: NUMBER'. Received: {line!r} in "
                f"{txt_path}."
            )
        yield [found[1], int(found[2])]


def text2text_txt_iterator(source_txt_path: str, target_txt_path: str) -> Iterator[dict[str, str]]:
    """Yields samples of two files, line by line; ends with the shorter one, as in T2T."""
    lines = zip(
        txt_line_iterator(source_txt_path), txt_line_iterator(target_txt_path), strict=False
    )
    for source, target in lines:
        yield {"inputs": source, "targets": target}


def text2text_txt_iterator_with_label(
    source_txt_path: str, target_txt_path: str
) -> Iterator[dict[str, Any]]:
    lines = zip(
        txt_line_iterator(source_txt_path), txt_and_label_iterator(target_txt_path), strict=False
    )
    for source, (target, label) in lines:
        yield {"inputs": source, "targets": target, "extra_label": [label]}


def text2text_txt_iterator_with_index(
    source_txt_path: str, target_txt_path: str
) -> Iterator[dict[str, Any]]:
    for index, sample in enumerate(text2text_txt_iterator(source_txt_path, target_txt_path)):
        yield {**sample, "idx": [index]}


def text2text_txt_sharded_iterator(
    source_txt_pattern: str, target_txt_pattern: str
) -> Iterator[dict[str, str]]:
    lines = zip(
        txt_line_sharded_iterator(source_txt_pattern),
        txt_line_sharded_iterator(target_txt_pattern),
        strict=False,
    )
    for source, target in lines:
        yield {"inputs": source, "targets": target}


def text2text_txt_tab_iterator(txt_path: str) -> Iterator[dict[str, str]]:
    """Yields samples of lines "source TAB target"; lines without a TAB are left out."""
    lines = txt_line_sharded_iterator if txt_path.endswith("*") else txt_line_iterator
    for line in lines(txt_path):
        source, tab, target = line.partition("\t")
        if tab:
            yield {"inputs": source.strip(), "targets": target.strip()}


def text2self_txt_iterator(txt_path: str) -> Iterator[dict[str, str]]:
    for line in txt_line_iterator(txt_path):
        yield {"targets": line}


def text2class_txt_iterator(
    source_txt_path: str, label_txt_path: str, class_strs: Iterable[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields samples of a file of texts and one of labels, numbers or out of `class_strs`."""
    numbers = {label: number for number, label in enumerate(class_strs or ())}
    lines = zip(txt_line_iterator(source_txt_path), txt_line_iterator(label_txt_path), strict=False)
    for source, label in lines:
        yield {"inputs": source, "label": numbers[label] if class_strs else int(label)}
