"""Calls a function in several processes, where work is too much for one.

    counts = process_pool.run(function, items, num_processes=4, report=line.add)

Each process is a new Python that imports the function's module. (A fork would share TensorFlow's
threads and locks, and `multiprocessing`'s own new processes run the caller's script again, which
few scripts are made for.) They see no GPU, and end when the caller does, however it ends.

Not loky, whose processes live on when the caller is killed, which cannot tell of progress within
an item, and which says of an error that it cannot send only that.
"""

import contextlib
import multiprocessing.connection
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from ut_keras import errors
from ut_keras.errors import DataError, UserError

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2].split('\\n'); "
    "from ut_keras.data.writing import process_pool; process_pool.work(int(sys.argv[1]))"
)
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
    if not any(_same(function, known) for known in _first):
        _first.append(function)


def _same(one, other):
    return pickle.dumps(one) == pickle.dumps(other)


def default_num_processes() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(
    function: Callable[..., Any],
    items: Sequence[Any],
    num_processes: int,
    report: Callable[[int], Any] = lambda count: None,
) -> list[Any]:
    """Calls `function(item, report)` for every item.

    Args:
        function: what is called; it calls `report(count)` as its work goes on. If it cannot be
            sent to another process (it, or what it holds, is defined in the main script), all is
            done in this one.
        items: list of arguments.
        num_processes: int. One process is this one.
        report: function that gets the counts, in this process.

    Returns:
        list of results, as the items are ordered.

    Raises:
        whatever the function raises, and `DataError` if a process is killed.
    """
    num_processes = min(num_processes, len(items))
    sent = _pickled(function) if num_processes > 1 else None
    if sent is None:
        return [function(item, report) for item in items]
    results = {}
    waiting = iter(enumerate(items))
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_Worker(sent)) for _ in range(num_processes)]
        busy = {}
        for worker in workers:
            number, item = next(waiting)
            worker.start(item)
            busy[worker.connection] = worker, number
        while busy:
            for connection in multiprocessing.connection.wait(list(busy)):
                worker, number = busy[connection]
                kind, value = worker.receive()
                if kind == "progress":
                    report(value)
                elif kind == "error":
                    raise value
                else:
                    results[number] = value
                    del busy[connection]
                    for number, item in waiting:
                        worker.start(item)
                        busy[connection] = worker, number
                        break
    return [results[number] for number in range(len(items))]


def _pickled(function):
    """The bytes of a function; None if another process could not make it of them."""
    try:
        sent = pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if b"__main__" in sent else sent


class _Worker:
    """The caller's end of a process."""

    def __init__(self, function):
        self.connection, theirs = multiprocessing.connection.Pipe()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, closed in __exit__
        paths = "\n".join(sys.path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), paths],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **_ENVIRONMENT},
                stderr=self._stderr,
            )
        self._send(pickle.dumps(_first))
        self._send(function)

    def start(self, item):
        self._send(pickle.dumps(item))

    def _send(self, data):
        try:
            self.connection.send_bytes(data)
        except OSError:
            raise self._died() from None

    def receive(self):
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None

    def _died(self):
        code = self._process.wait()
        self._stderr.seek(0)
        last = self._stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        killed = "; a process is killed where memory runs out" if code == -signal.SIGKILL else ""
        return DataError(
            "The processes of data generation must run to their end (fewer need less memory: "
            f"--num_concurrent_processes). Received: exit code {code}{killed}. {last}".strip()
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.connection.close()
        self._process.kill()
        self._process.wait()
        self._stderr.close()


def work(file_descriptor: int) -> None:
    """What a process does: gets the function, then items, until the caller is gone."""
    # Ctrl-C goes to all processes of a terminal; the caller ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with (
        multiprocessing.connection.Connection(file_descriptor) as connection,
        contextlib.suppress(EOFError, OSError),
    ):
        _attempt(connection, lambda: [call() for call in pickle.loads(connection.recv_bytes())])
        function = _attempt(connection, lambda: pickle.loads(connection.recv_bytes()))
        while True:
            item = pickle.loads(connection.recv_bytes())

            def report(count):
                connection.send(("progress", count))

            result = _attempt(connection, lambda item=item: function(item, report))
            connection.send(("result", result))


def _attempt(connection, function):
    """Calls a function; an error goes to the caller, and ends this process."""
    try:
        return function()
    except BaseException as error:
        said = error if isinstance(error, UserError) else errors.of_package(error) or error
        if isinstance(said, EOFError | ConnectionError):
            raise
        if not isinstance(said, Exception) or not _can_be_sent(said):
            said = RuntimeError(traceback.format_exc())
        connection.send(("error", said))
        raise EOFError from error


def _can_be_sent(error):
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True
