"""Calls a function in several processes, where work is too much for one.

    counts = process_pool.run(function, items, num_processes=4)

Each process of the pool is a new Python: a fork would share TensorFlow's threads and locks. The
caller's script is not run again in it, which few scripts are made for. They see no GPU, and end
when the caller does, however it ends.
"""

import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ut_keras import errors
from ut_keras.errors import DataError, UserError
from ut_keras.process import tensorflow_log

_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    # The processes share the processor already.
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
}

_first: list[Callable[[], Any]] = []


def first(function: Callable[[], Any]) -> None:
    """Has `function()` called in every process before its work; it can be sent to another process.

    What it does here is for the caller to do, such as to import a package by its path.
    """
    if not any(pickle.dumps(function) == pickle.dumps(known) for known in _first):
        _first.append(function)


def run(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    num_processes: int,
    done: Callable[[Any], Any] = lambda item: None,
) -> list[Any]:
    """Calls `function(item)` for every item.

    Args:
        function: what is called. If it cannot be sent to another process (it, or what it holds, is
            defined in the main script), all is done in this one.
        items: list of arguments.
        num_processes: int. One process is this one.
        done: function that is called with every item that is done, in their order.
    Returns:
        list of results, as the items are ordered.
    Raises:
        whatever the function raises, and `DataError` if a process is killed.
    """
    num_processes = min(num_processes, len(items))
    sent = _pickled(function) if num_processes > 1 else None
    if sent is None:
        return _collect(map(function, items), items, done)
    before = multiprocessing.active_children()
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(num_processes, context, _begin)
    try:
        with _no_script():
            results = pool.map(functools.partial(_call, pickle.dumps(_first), sent), items)
        return _collect(results, items, done)
    except BrokenProcessPool as error:
        raise DataError(
            "The processes of data generation must run to their end (fewer need less memory: "
            "--num_concurrent_processes). Received: one that ended early; a process is killed "
            "where memory runs out."
        ) from error
    finally:
        for process in multiprocessing.active_children():  # which may be at work, after an error
            if process not in before:
                process.kill()
        pool.shutdown()


def _collect(results, items, done):
    collected = []
    for item, result in zip(items, results, strict=True):
        collected.append(result)
        done(item)
    return collected


def _pickled(function):
    """The bytes of a function; None if another process could not make it of them."""
    try:
        sent = pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if b"__main__" in sent else sent


@contextlib.contextmanager
def _no_script() -> Iterator[None]:
    """Context in which processes are started as if there were no script to run in them."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _begin():
    """What a process does first."""
    os.environ.update(_ENVIRONMENT)
    tensorflow_log.set_default()
    # Ctrl-C goes to all processes of a terminal; the caller ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_caller, daemon=True).start()


def _end_with_caller():
    caller = multiprocessing.parent_process()
    assert caller is not None
    caller.join()
    os._exit(1)


def _call(first, function, item):
    """What a process does for an item; its error is one that can be sent."""
    try:
        return _loaded(first, function)(item)
    except BaseException as error:
        said = error if isinstance(error, UserError) else errors.of_package(error) or error
        if not isinstance(said, Exception) or not _can_be_sent(said):
            said = RuntimeError(traceback.format_exc())
        raise said from None


@functools.lru_cache(maxsize=1)
def _loaded(first, function):
    for call in pickle.loads(first):
        call()
    return pickle.loads(function)


def _can_be_sent(error):
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True
