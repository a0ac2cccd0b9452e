"""Stand-in for the functions of data_generators.text_problems for text files.

References: tensor2tensor/data_generators/text_problems.py.
"""

import glob
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ut_keras.data.contract import text_of
from ut_keras.errors import DataError
from ut_keras.problems.problem import Samples
from ut_keras.t2t import missing
from ut_keras.text import text_lines
from ut_keras.text.ragged_ids import RaggedIds
from ut_keras.text.text_encoder_base import EOS, TextEncoder

_EXTRA_LABEL = re.compile(r"(.*)\tExtra_Label: (.*)")


def txt_line_iterator(txt_path: str) -> Iterator[str]:
    """Yield the lines of a file without surrounding white space."""
    return map(str.strip, text_lines.lines_without_carriage_returns(txt_path))


def txt_line_sharded_iterator(txt_pattern: str) -> Iterator[str]:
    """Yield the lines of all files that match a pattern."""
    for path in sorted(glob.glob(txt_pattern)):
        yield from txt_line_iterator(path)


def txt_and_label_iterator(txt_path: str) -> Iterator[list[Any]]:
    """Yield [text, int] from lines "text TAB Extra_Label: int"."""
    for line in txt_line_iterator(txt_path):
        found = _EXTRA_LABEL.search(line)
        if not found:
            raise DataError(
                f"Every line must end with a TAB and 'Extra_Label: NUMBER'. Received: {line!r} in "
                f"{txt_path}."
            )
        yield [found[1], int(found[2])]


def pairs(one: Iterable[Any], other: Iterable[Any], paths: Sequence[str]) -> Iterator[Any]:
    """Pair the lines of two files up to the end of the shorter one, as in T2T.

    If the longer file has further lines with text, a note names both files. Line n of one file may
    then not belong to line n of the other file.

    Args:
        one, other: iterables of the lines of the two files.
        paths: list of str, the names of the two files.
    """
    (one_path, other_path), ones, others = paths, iter(one), iter(other)
    number = 0
    for number, line in enumerate(ones, start=1):
        for other_line in others:
            yield line, other_line
            break
        else:
            if line or _has_text(ones):
                _note_longer(one_path, other_path, number - 1)
            return
    if _has_text(others):
        _note_longer(other_path, one_path, number)


def _has_text(lines):
    try:
        return any(lines)
    except DataError:  # one of the lines is invalid
        return True


def _note_longer(longer, shorter, number):
    missing.print_once(
        f"note: {longer} has more lines than {shorter}. As in T2T, the lines after line {number:,} "
        "are not used. If a line is missing before, the lines do not belong together."
    )


def _read_pairs(read, one_path, other_path):
    return pairs(read(one_path), read(other_path), (one_path, other_path))


def text2text_txt_iterator(source_txt_path: str, target_txt_path: str) -> Samples:
    """Yield samples from two files, line by line, up to the end of the shorter file."""
    for source, target in _read_pairs(txt_line_iterator, source_txt_path, target_txt_path):
        yield {"inputs": source, "targets": target}


def text2text_txt_iterator_with_label(source_txt_path: str, target_txt_path: str) -> Samples:
    sources, targets = txt_line_iterator(source_txt_path), txt_and_label_iterator(target_txt_path)
    paths = (source_txt_path, target_txt_path)
    for source, (target, label) in pairs(sources, targets, paths):
        yield {"inputs": source, "targets": target, "extra_label": [label]}


def text2text_txt_iterator_with_index(source_txt_path: str, target_txt_path: str) -> Samples:
    for index, sample in enumerate(text2text_txt_iterator(source_txt_path, target_txt_path)):
        yield {**sample, "idx": [index]}


def text2text_txt_sharded_iterator(source_txt_pattern: str, target_txt_pattern: str) -> Samples:
    patterns = (source_txt_pattern, target_txt_pattern)
    for source, target in _read_pairs(txt_line_sharded_iterator, *patterns):
        yield {"inputs": source, "targets": target}


def text2text_txt_tab_iterator(txt_path: str) -> Samples:
    """Yield samples from lines "source TAB target"; skip lines without a TAB.

    If a skipped line has text, a note says how many there are.
    """
    lines = txt_line_sharded_iterator if txt_path.endswith("*") else txt_line_iterator
    skipped = 0
    for line in lines(txt_path):
        source, tab, target = line.partition("\t")
        if tab:
            yield {"inputs": source.strip(), "targets": target.strip()}
        else:
            skipped += bool(line)
    if skipped:
        missing.print_once(
            f"note: {skipped:,} lines of {txt_path} have no TAB between two texts. As in T2T, they "
            "are skipped."
        )


def text2self_txt_iterator(txt_path: str) -> Samples:
    for line in txt_line_iterator(txt_path):
        yield {"targets": line}


def text2class_txt_iterator(
    source_txt_path: str, label_txt_path: str, class_strs: Iterable[str] | None = None
) -> Samples:
    """Yield samples from a text file and a label file.

    Each label is a number. If `class_strs` is given, each label is one of these names.
    """
    numbers = {label: number for number, label in enumerate(class_strs or ())}
    for source, label in _read_pairs(txt_line_iterator, source_txt_path, label_txt_path):
        number = numbers.get(label) if class_strs else int(label) if label.isdecimal() else None
        if number is None:
            expected = f"one of {[*numbers]}" if class_strs else "a number"
            raise DataError(f"A label must be {expected}. Received: {label!r} in {label_txt_path}.")
        yield {"inputs": source, "label": number}


_ENCODING_GROUP_SIZE = 8192  # samples that are encoded at once, which is much faster


def text2text_generate_encoded(
    sample_generator: Samples,
    vocab: TextEncoder,
    targets_vocab: TextEncoder | None = None,
    has_inputs: bool = True,
    inputs_prefix: str = "",
    targets_prefix: str = "",
) -> Samples:
    """Yield samples with "inputs" and "targets" as ids with EOS."""
    encoders = {"inputs": vocab} if has_inputs else {}
    encoders["targets"] = targets_vocab or vocab
    prefixes = {"inputs": inputs_prefix, "targets": targets_prefix}

    def texts_of(sample):
        return [prefixes[name] + text_of(sample, name) for name in encoders]

    for sample, columns in encode(sample_generator, encoders, texts_of):
        yield {**sample, **dict(zip(encoders, columns, strict=True))}


def encode(
    samples: Samples,
    encoders: dict[str, TextEncoder],
    texts_of: Callable[[dict[str, Any]], list[str]],
) -> Iterator[tuple[dict[str, Any], tuple[list[int], ...]]]:
    """Yield (copy of a sample, ids of its texts with EOS).

    The function encodes many samples at once.
    """
    # A package may yield one dict several times, with new values.
    rest = ((texts_of(sample), dict(sample)) for sample in samples)
    while group := list(itertools.islice(rest, _ENCODING_GROUP_SIZE)):
        texts, copies = zip(*group, strict=True)
        columns = [
            _ragged(encoder, column).append(EOS).to_lists()
            for encoder, column in zip(encoders.values(), zip(*texts, strict=True), strict=True)
        ]
        yield from zip(copies, zip(*columns, strict=True), strict=True)


def _ragged(encoder, texts):
    if hasattr(encoder, "encode_ragged"):
        return encoder.encode_ragged(texts)
    return RaggedIds.from_lists([encoder.encode(text) for text in texts])
