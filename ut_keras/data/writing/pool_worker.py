"""The program of a worker process of `process_pool`.

The worker reads items from its standard input and writes results to a pipe.
"""

import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from ut_keras import errors
from ut_keras.errors import UserError
from ut_keras.process import tensorflow_log


def main(results_descriptor: int) -> None:
    """Process items until the parent process exits.

    Args:
        results_descriptor: int. The file descriptor of the pipe. For each item, this process writes
            the pickled pair (succeeded, result). If `succeeded` is False, `result` is an exception.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent, which handles it
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, messages), daemon=True).start()
    preparations, function = messages.get(), messages.get()
    call: Callable[[Any], Any] | None = None
    with os.fdopen(results_descriptor, "wb") as results:
        while True:
            item = messages.get()
            try:
                call = call or _loaded(preparations, function)
                result = True, call(pickle.loads(item))
            except BaseException as error:
                result = False, _picklable(error)
            pickle.dump(result, results)
            results.flush()


def _read(stream: BinaryIO, messages: "queue.SimpleQueue[Any]") -> None:
    """Put the parent's messages into the queue, and exit as soon as the parent exits."""
    try:
        while True:
            messages.put(pickle.load(stream))
    finally:
        os._exit(1)


def _loaded(preparations: bytes, function: bytes) -> Callable[[Any], Any]:
    with tensorflow_log.held_back():
        for prepare in pickle.loads(preparations):
            prepare()
        return pickle.loads(function)


def _picklable(error: BaseException) -> Exception:
    """Return `error`, or a picklable exception with the same information."""
    shown = error if isinstance(error, UserError) else errors.from_user_code(error) or error
    if not isinstance(shown, Exception) or not _survives_pickling(shown):
        return RuntimeError(traceback.format_exc())
    return shown


def _survives_pickling(error: Exception) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True
