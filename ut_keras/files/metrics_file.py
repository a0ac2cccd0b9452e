"""`metrics.jsonl` of a run: a line for every evaluation, written and read. No TensorFlow.

{"step": 50, "time": 1.7e9, "problem": "mine", "split": "dev", "loss": 0.31, "accuracy": 0.9}

What a command that does not train has measured, which may take other batches or other hparams, has
"by": "evaluation" besides.
A run that is killed may leave a torn line at the end: training passes over it and then cuts it off.
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
NON_METRIC_KEYS = ("step", "time", "problem", "split", "by")
BY_TRAINING = {"by": "training"}  # as of `records`
_LARGEST_FINITE = 1e300  # what can be computed with
# Of these less is better; of accuracies, BLEU and the like, more.
_LESS_IS_BETTER = re.compile(
    r"(^|[/_])(loss|losses|error|failed|perplexity|rmse|edit_distance)($|[/_])"
)
_NEGATED = re.compile(r"(^|[/_])neg_")


# T2T's names for TensorBoard.
_T2T_TAG = re.compile(r"metrics-[^/]*/(?:targets/)?(.*)")


def metric_name(metric: str) -> str:
    """Return the name of a metric here, of T2T's tag: "metrics-PROBLEM/targets/accuracy"."""
    tag = _T2T_TAG.fullmatch(metric)
    return tag[1] if tag else metric


def path(output_dir: str) -> str:
    """The path of the file of a run."""
    return os.path.join(output_dir, FILENAME)


def records(output_dir: str, **of: str) -> Iterator[dict[str, Any]]:
    """Yields what the whole lines of a run's file hold, those with a step; of metrics, numbers.

    With `problem="mine"` or `split="dev"` those alone that are of it, or do not say.
    """
    for record in filter(None, map(_record, _lines(path(output_dir)))):
        if matches(record, **of):
            yield {
                key: value
                for key, value in record.items()
                if key in NON_METRIC_KEYS or _is_number(value)
            }


def is_less_better(metric: str) -> bool:
    """Whether less of a metric is better, by its name."""
    return bool(_LESS_IS_BETTER.search(metric)) and not _NEGATED.search(metric)


def matches(record: dict[str, Any], **of: str) -> bool:
    """Whether a record is of a problem, a split; it is of any that it does not name."""
    return all(record.get(key, value) == value for key, value in of.items())


def append(output_dir: str, record: dict[str, Any]) -> None:
    """Adds a line, after cutting off one that was not written to its end.

    Raises:
        OSError: if the disk is full, or the file somebody else's; it is then as it was.
    """
    file_error.check_is_file(path(output_dir))
    whole_file.break_hard_links(path(output_dir))
    # Without a buffer, which would keep what a full disk refused and write it later.
    with file_error.named(path(output_dir)), open(path(output_dir), "a+b", buffering=0) as file:
        file.seek(0)
        content = file.read()
        _check_signature(output_dir, content)
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            file.truncate(whole)
        data = json.dumps(record).encode() + b"\n"
        if file.write(data) != len(data):
            file.truncate(whole)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path(output_dir))
        os.fsync(file.fileno())


def filter_records(output_dir: str, is_kept: Callable[[dict[str, Any]], bool]) -> None:
    """Removes the lines whose records are not kept, and what is none. Raises: as `append`."""
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
    """The lines of a file as bytes, a torn one at the end included."""
    if not os.path.exists(name):
        return []
    file_error.check_is_file(name)
    with file_error.named(name), open(name, "rb") as file:
        return file.read().splitlines(keepends=True)


def _record(line):
    """What a whole line holds, else None."""
    record = json_file.parse_line(line)
    return record if isinstance(record.get("step"), int) else None


def _is_number(value):
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_one and not _LARGEST_FINITE < abs(value) < math.inf
