"""The file `metrics.jsonl` of a run: one line per evaluation.

{"step": 50, "time": 1.7e9, "problem": "mine", "split": "dev", "loss": 0.31, "accuracy": 0.9}

The lines of a command that only evaluates also have "by": "evaluation", because such a command may
use other batches or hparams than training. A killed run may leave an incomplete line at the end of
the file. Readers skip this line, and the next run removes it. This module does not import
TensorFlow.
"""

import errno
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from ut_keras.files import file_error, json_file, whole_file

FILENAME = "metrics.jsonl"
_SIGNATURE = b'{"step": '
_SEARCH_BLOCK = 4096  # bytes that the search from the end of the file reads at a time
NON_METRIC_KEYS = ("step", "time", "problem", "split", "by")
BY_TRAINING = {"by": "training"}  # with these arguments, `records` yields only training's records
_LARGEST_FINITE = 1e300  # larger numbers overflow in computations
# Pattern of the names of metrics for which smaller values are better. For all other metrics, such
# as accuracies and BLEU, larger values are better.
_LESS_IS_BETTER = re.compile(
    r"(^|[/_])(loss|losses|error|failed|perplexity|rmse|edit_distance)($|[/_])"
)
_NEGATED = re.compile(r"(^|[/_])neg_")


# Pattern of T2T's tags in TensorBoard.
_T2T_TAG = re.compile(r"metrics-[^/]*/(?:targets/)?(.*)")


def metric_name(metric: str) -> str:
    """Return the name of a metric without T2T's prefix.

    An example of the prefix is "metrics-PROBLEM/targets/". A name without this prefix is returned
    unchanged.
    """
    tag = _T2T_TAG.fullmatch(metric)
    return tag[1] if tag else metric


def path(output_dir: str) -> str:
    """Return the path of the `metrics.jsonl` of a run."""
    return os.path.join(output_dir, FILENAME)


def records(output_dir: str, **required: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a run that have a step, from complete lines only.

    The values of metrics may be numbers up to 1e300, infinity or NaN. Any other value is removed
    from the record, except for the keys in `NON_METRIC_KEYS`.

    Args:
        output_dir: str. The run's folder.
        required: required values, such as problem="mine" or split="dev". A record that lacks a
            required key is yielded too.
    """
    for record in filter(None, map(_record, _lines(path(output_dir)))):
        if matches(record, **required):
            yield {
                key: value
                for key, value in record.items()
                if key in NON_METRIC_KEYS or _is_number(value)
            }


def is_less_better(metric: str) -> bool:
    """Return whether smaller values of a metric are better, according to its name."""
    return bool(_LESS_IS_BETTER.search(metric)) and not _NEGATED.search(metric)


def matches(record: dict[str, Any], **required: str) -> bool:
    """Return whether a record has the required values.

    A missing key matches any value.
    """
    return all(record.get(key, value) == value for key, value in required.items())


def append(output_dir: str, record: dict[str, Any]) -> None:
    """Add a line to the file, after removing an incomplete last line.

    Raises:
        OSError: if the disk is full or the file belongs to another program. The file is then
            unchanged.
    """
    file_error.check_is_file(path(output_dir))
    whole_file.break_hard_links(path(output_dir))
    # The file is unbuffered. If the disk is full, a buffer would keep the unwritten bytes and write
    # them later.
    with file_error.named(path(output_dir)), open(path(output_dir), "a+b", buffering=0) as file:
        file.seek(0)
        _check_signature(output_dir, file.read(len(_SIGNATURE)))
        complete = _end_of_last_line(file)
        if complete != file.seek(0, os.SEEK_END):
            file.truncate(complete)
        data = json.dumps(record).encode() + b"\n"
        if file.write(data) != len(data):
            file.truncate(complete)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path(output_dir))
        os.fsync(file.fileno())


def _end_of_last_line(file):
    """Return the position after the last line break of a file, searching from its end."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _SEARCH_BLOCK)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def filter_records(output_dir: str, is_kept: Callable[[dict[str, Any]], bool]) -> None:
    """Keep only the lines that contain a record for which `is_kept` returns True.

    Raises:
        OSError: in the same cases as `append`.
    """
    lines = _lines(path(output_dir))
    _check_signature(output_dir, b"".join(lines))
    kept = [line for line in lines if (record := _record(line)) and is_kept(record)]
    if kept != lines:
        with whole_file.writing(os.path.realpath(path(output_dir)), binary=True) as file:
            file.writelines(kept)


def _check_signature(output_dir, content):
    if not content.startswith(_SIGNATURE[: len(content)]):
        raise FileExistsError(errno.EEXIST, "File of another program", path(output_dir))


def _lines(name):
    """Return the lines of a file as bytes, including an incomplete last line."""
    if not os.path.exists(name):
        return []
    file_error.check_is_file(name)
    with file_error.named(name), open(name, "rb") as file:
        return file.read().splitlines(keepends=True)


def _record(line):
    """Return the record in a line, or None if the line is incomplete."""
    record = json_file.parse_line(line)
    return record if isinstance(record.get("step"), int) else None


def _is_number(value):
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_one and not _LARGEST_FINITE < abs(value) < math.inf
