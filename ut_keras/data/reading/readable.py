"""TensorFlow's errors about data as a `DataError` of one line, which names the file.

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
_RAISED = re.compile(r"\bDataError: (?P<line>.*)")  # in a function in Python


@contextlib.contextmanager
def errors(files: Sequence[str] = ()) -> Iterator[None]:
    """Turns TensorFlow's errors about data into a `DataError` of one line; iterate inside it.

    Args:
        files: list of str, those that are read from front to back, if they are: TensorFlow's own
            error on a damaged file does not name it.
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
    """Yields the batches; what is wrong with the data becomes a `DataError` of one line."""
    with errors():
        yield from dataset


def _explained(text, files):
    """The line for the user if an error's text is about a record; else None."""
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
    """What TensorFlow's error says, without where in the graph."""
    first_line = re.sub(r"\{\{.*?\}\}", "", str(error)).strip().splitlines()[0]
    return first_line.split(" [Op:")[0].strip()
