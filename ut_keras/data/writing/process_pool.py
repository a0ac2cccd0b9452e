"""Call a function in several Python processes.

    counts = process_pool.run(function, items, num_processes=4)

Each worker is a new Python process that runs `ut_keras.data.writing.pool_worker`. Two alternatives
were rejected. A fork would share TensorFlow's threads and locks with the caller. `multiprocessing`
would run the caller's script again in every process, which most scripts do not support. The workers
use no GPU. They end when the caller ends, even if the caller is killed.
"""

import concurrent.futures
import contextlib
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ut_keras.errors import DataError

_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    # Each worker uses one thread, because the workers already share the processor.
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
}

_preparations: list[Callable[[], Any]] = []


def prepare(function: Callable[[], Any]) -> None:
    """Make every worker call `function()` before its work.

    The function must be picklable. This process does not call the function. For example, the
    function may import a package that this process has already imported.
    """
    if not any(pickle.dumps(function) == pickle.dumps(known) for known in _preparations):
        _preparations.append(function)


def run(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    num_processes: int,
    done: Callable[[Any], Any] = lambda item: None,
) -> list[Any]:
    """Call `function(item)` for every item.

    Args:
        function: function of one item. If the function, or an object to which it refers, is defined
            in the main script, another process cannot load it. This process then does all the work.
        items: list of arguments of `function`.
        num_processes: int. With 1, this process does all the work.
        done: function that is called with every finished item, in the order of `items`.

    Returns:
        list of results, in the order of `items`.

    Raises:
        Exception: the exception that `function` raises.
        DataError: if a worker is killed.
    """
    num_processes = min(num_processes, len(items))
    pickled = _pickled(function) if num_processes > 1 else None
    if pickled is None:
        return _collect(map(function, items), items, done)
    with _workers(num_processes, (pickle.dumps(_preparations), pickled)) as call:
        threads = concurrent.futures.ThreadPoolExecutor(num_processes)
        try:
            return _collect(threads.map(call, items), items, done)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _collect(results: Iterable[Any], items: Sequence[Any], done: Callable[[Any], Any]) -> list[Any]:
    collected = []
    for item, result in zip(items, results, strict=True):
        collected.append(result)
        done(item)
    return collected


def _pickled(function: Callable[[Any], Any]) -> bytes | None:
    """Return the pickled function, or None if another process could not load it."""
    try:
        pickled = pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if b"__main__" in pickled else pickled


@contextlib.contextmanager
def _workers(number: int, task: tuple[bytes, bytes]) -> Iterator[Callable[[Any], Any]]:
    """Start workers, yield a function that calls a free worker, and end the workers."""
    workers = [_Worker(task) for _ in range(number)]
    free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in workers:
        free.put(worker)

    def call(item: Any) -> Any:
        worker = free.get()
        try:
            return worker.call(item)
        finally:
            free.put(worker)

    try:
        yield call
    finally:
        for worker in workers:  # after an error, some workers may still be working
            worker.kill()


class _Worker:
    """A process that computes the results of items.

    It receives the items on its standard input, and sends the results through a pipe.
    """

    def __init__(self, task: tuple[bytes, bytes]) -> None:
        read, write = os.pipe()
        self._results = os.fdopen(read, "rb")
        with os.fdopen(write, "wb"):
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(write)],
                stdin=subprocess.PIPE,
                pass_fds=[write],
                env={**os.environ, **_ENVIRONMENT},
            )
        self._task: tuple[Any, ...] = (sys.path, *task)

    def call(self, item: Any) -> Any:
        """Return the function's result for an item, or raise the function's exception."""
        assert self._process.stdin is not None
        try:
            for message in (*self._task, pickle.dumps(item)):
                pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()
            self._task = ()
            succeeded, result = pickle.load(self._results)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            self.kill()
            raise DataError(
                "The processes of data generation must not end early. The system kills a process "
                "when memory runs out; fewer processes (--num_concurrent_processes; in Python, "
                "num_processes) need less memory. "
                f"Received: exit code {self._process.returncode}."
            ) from error
        if succeeded:
            return result
        raise result

    def kill(self) -> None:
        """End the process. A thread that waits for a result of the process gets an error."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # an unsent part of a message may remain
            self._process.stdin.close()
        self._results.close()


# The worker first gets the caller's module path, so that it finds the same modules.
_PROGRAM = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from ut_keras.data.writing import pool_worker; pool_worker.main(int(sys.argv[1]))"
)
