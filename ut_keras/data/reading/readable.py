"""TensorFlow's errors about data as a `DataError` of one line, which names the file.

for features, targets in readable.batches(dataset): …
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from ut_keras.data import tfrecords
from ut_keras.data.reading import record_parser
from ut_keras.errors import DataError


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
        file = tfrecords.find_bad(files) or "one of the data files"
        raise DataError(
            f"A TFRecord file must be whole. Received: {record_parser.brief(error)} in {file}. "
            "Remove the file and generate the data again."
        ) from error
    except tf.errors.InvalidArgumentError as error:
        message = record_parser.explain(str(error), lambda: tfrecords.find_bad(files))
        if message is None:
            raise
        raise DataError(message) from error
    except tf.errors.NotFoundError as error:
        if "No such file" not in str(error):
            raise
        raise DataError(f"A data file has gone. Received: {record_parser.brief(error)}.") from error


def batches(dataset: Iterable[Any]) -> Iterator[Any]:
    """Yields the batches; what is wrong with the data becomes a `DataError` of one line."""
    with errors():
        yield from dataset
