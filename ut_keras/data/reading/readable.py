"""Converts TensorFlow's errors about data to a one-line `DataError`.

for features, targets in readable.batches(dataset): …
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from ut_keras.data import tfrecords
from ut_keras.data.reading import record_parser
from ut_keras.errors import DataError

_FAILED_CHECK = re.compile(r"assertion failed: \[(?P<check>[^\]]*)\](?P<values>.*)")
_UNKNOWN_FILE = "one of the data files"
_RAISED = re.compile(r"\bDataError: (?P<line>.*)")  # an error of a Python function in the graph


@contextlib.contextmanager
def errors(files: Sequence[str] = ()) -> Iterator[None]:
    """Context that converts TensorFlow's errors about data to a `DataError`.

    The iteration over a dataset must take place inside this context.

    Args:
        files: list of str, the files that are read sequentially. If TensorFlow reports a damaged
            file without its name, the `DataError` names the first damaged file of this list.
            Optional.
    """
    try:
        yield
    except tf.errors.DataLossError as error:
        path = tfrecords.find_bad(files)
        if path:
            tfrecords.check_format(path)
        raise DataError(
            f"A TFRecord file must be complete and undamaged. Received: {_brief(error)} in "
            f"{path or _UNKNOWN_FILE}. Remove the file and generate the data again."
        ) from error
    except tf.errors.InvalidArgumentError as error:
        message = _explained(str(error), files)
        if message is None:
            raise
        raise DataError(message) from error
    except tf.errors.NotFoundError as error:
        if "No such file" not in str(error):
            raise
        raise DataError(
            f"A data file was removed while it was in use. Received: {_brief(error)}."
        ) from error


def batches(dataset: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of a dataset inside `errors()`."""
    with errors():
        yield from dataset


def _explained(text, files):
    """Return a message for the user if an error text is about a record, or None."""
    match = _FAILED_CHECK.search(text)
    if match and match["check"] in record_parser.CHECKS:
        values = re.findall(r"\[([^\]]*)\]", match["values"])
        return record_parser.CHECKS[match["check"]].format(*values, file=values[-1])
    raised = _RAISED.search(text)
    if raised:
        return raised["line"]
    if "Could not parse example input" in text or "ParseExample" in text:
        return (
            "A record must be a tf.train.Example with int64 lists. Received: a different record, "
            f"in {_first_damaged(files)}: {_brief(text)}."
        )
    return None


def _first_damaged(files):
    return tfrecords.find_bad(files) or _UNKNOWN_FILE


def _brief(error):
    """Return the text of a TensorFlow error without the name of the graph node."""
    first_line = re.sub(r"\{\{.*?\}\}", "", str(error)).strip().splitlines()[0]
    return first_line.split(" [Op:")[0].strip()
