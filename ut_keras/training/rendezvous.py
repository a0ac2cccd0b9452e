"""Waits until all workers of a cluster are there, and tells each what the others have to say.

    statements = rendezvous.exchange(cluster, 300, {"train_steps": 1000})   {worker: its dict}

TensorFlow waits for them without an end, and hears no Ctrl-C meanwhile. So nobody goes to it before
all are there: each answers on its port and asks at all others', and goes on when it has heard from
each and each has heard from it. Loads no TensorFlow.

    asks      {"worker": 1}
    answers   {"train_steps": 1000}
    asks      (an empty line once it has that; it hangs up first, so that the port is free)
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

from ut_keras.files import json_file
from ut_keras.process.interruption import Interrupted
from ut_keras.training.cluster import Cluster, ClusterError, host_and_port

_NAME_SECONDS = 30  # A machine's name may be known a little later than another starts.
_PAUSE_SECONDS = 0.2
_CONNECT_SECONDS = 2
_TALK_SECONDS = 5  # from the first to the last byte
_LONGEST_LINE = 1 << 20  # bytes


class WorkersMissing(Interrupted):
    """Workers have not come."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=75)  # "try again", in sysexits.h


def exchange(cluster: Cluster, seconds: float, statement: Mapping[str, Any]) -> dict[str, Any]:
    """Returns when all workers are there, and have told each other.

    Args:
        cluster: `Cluster`.
        seconds: int. How long to wait.
        statement: dict that JSON can hold.

    Returns:
        dict from the address of every worker to its statement.

    Raises:
        ClusterError: if this worker's port is taken, or a name cannot be resolved.
        WorkersMissing: if some have not come.
    """
    started = time.monotonic()
    here = cluster.workers[cluster.index]
    found = {here: json.loads(json.dumps(statement))}  # as the others receive it
    with _Answers(here, statement) as answers:
        is_told = False
        while True:
            failures = {}
            for worker in cluster.workers:
                if worker not in found:
                    try:
                        found[worker] = _ask(worker, cluster.index)
                    except (OSError, ValueError) as error:
                        failures[worker] = error
            deaf = [
                worker
                for number, worker in enumerate(cluster.workers)
                if number != cluster.index and number not in answers.heard
            ]
            if not failures and not deaf:
                return {worker: found[worker] for worker in cluster.workers}
            waited = time.monotonic() - started
            names = [
                worker
                for worker, error in failures.items()
                if isinstance(error, (socket.gaierror, UnicodeError))
            ]
            if names and waited >= min(seconds, _NAME_SECONDS):
                raise ClusterError(
                    f"The workers of TF_CONFIG must have names that can be resolved. "
                    f"Received: {names[0]}: {_text(failures[names[0]])}."
                )
            if waited >= seconds:
                reasons = [f"{worker}: {_text(error)}" for worker, error in failures.items()]
                reasons = reasons or [f"{worker}: it does not ask" for worker in deaf]
                raise WorkersMissing(
                    f"All workers must come within --worker_wait_secs={seconds}. Received no "
                    f"answer from {'; '.join(reasons)}. Run the same command on all workers."
                )
            if failures and not is_told:
                print(f"Waiting {seconds} s at most for {', '.join(failures)}", flush=True)
                is_told = True
            time.sleep(_PAUSE_SECONDS)


class _Answers:
    """Tells whoever asks on this worker's port; a context.

    Attributes:
        heard: set of int, the workers that have the answer.
    """

    def __init__(self, address, statement):
        self.heard = set()
        self._line = json.dumps(statement).encode() + b"\n"
        self._server = _listener(address)
        self._server.settimeout(_PAUSE_SECONDS)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._ends.set()
        self._thread.join()
        self._server.close()

    def _accept(self):
        while not self._ends.is_set():
            with contextlib.suppress(OSError):  # nobody has come, or has gone at once
                connection, _ = self._server.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        # Anybody may come to a port and say anything.
        with connection, contextlib.suppress(OSError, ValueError):
            lines = _Lines(connection)
            worker = json_file.parse(lines.read()).get("worker")
            connection.sendall(self._line)
            if lines.read() == b"":
                self.heard.add(worker)
            connection.recv(1)  # until the other has hung up


class _Lines:
    """Reads lines from a connection, within `_TALK_SECONDS` altogether."""

    def __init__(self, connection):
        self._connection = connection
        self._ends_at = time.monotonic() + _TALK_SECONDS
        self._read = b""

    def read(self):
        """The next line, bytes.

        Raises:
            OSError: if it does not come in time.
            ValueError: if the other hangs up, or the line is too long.
        """
        while b"\n" not in self._read:
            left = self._ends_at - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._connection.settimeout(left)
            more = self._connection.recv(1 << 16)
            if not more or len(self._read) > _LONGEST_LINE:
                raise ValueError("it answers as no worker does that waits")
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line


def _ask(address, index):
    """What a worker states.

    Raises:
        OSError, ValueError: if it does not.
    """
    with socket.create_connection(host_and_port(address), timeout=_CONNECT_SECONDS) as connection:
        lines = _Lines(connection)
        connection.sendall(json.dumps({"worker": index}).encode() + b"\n")
        try:
            statement = json_file.parse(lines.read())
        except ValueError as error:
            # One that trains already (it will stop, as this one is missing), or something else.
            raise ValueError("it answers as no worker does that waits") from error
        connection.sendall(b"\n")
        return statement


def _listener(address):
    _, port = host_and_port(address)
    both = socket.has_dualstack_ipv6()
    try:
        # On all of the machine's addresses: its own name may stand for one that is not among them.
        return socket.create_server(
            ("", port),
            family=socket.AF_INET6 if both else socket.AF_INET,
            backlog=1024,
            dualstack_ipv6=both,
        )
    except OSError as error:
        raise ClusterError(
            f"The port of this worker in TF_CONFIG must be free to listen on. "
            f"Received: {address}: {error.strerror}."
        ) from error


def _text(error):
    return getattr(error, "strerror", None) or error


_MOST_SHOWN = 5


def check(statements: Mapping[str, Mapping[str, Any]], index: int) -> None:
    """Compares what all workers state with what one of them does.

    Args:
        statements: dict from every worker's address to a dict from name to value.
        index: int. Which worker this is.

    Raises:
        ClusterError: names what differs, and where; all workers raise it, if one does.
    """
    here = list(statements)[index]
    # Those that differ from the chief, or, on the chief, from it.
    chief = next(iter(statements))
    for other in [chief, here, *statements]:
        differing = _differing(statements[chief], statements[other])
        if differing:
            shown = ", ".join(
                f"{name}={statements[chief].get(name)!r} on {chief} and "
                f"{statements[other].get(name)!r} on {other}"
                for name in differing[:_MOST_SHOWN]
            )
            more = len(differing) - _MOST_SHOWN
            raise ClusterError(
                "All workers must have the same flags, hparams and data. Received: "
                f"{shown}{f', and {more} more' if more > 0 else ''}."
            )


def _differing(one, other):
    """The names of values that differ, in order."""
    return [name for name in one | other if one.get(name) != other.get(name)]
