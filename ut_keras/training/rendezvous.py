"""Waits until all workers of a cluster are there, and tells each what the others have to say.

    statements = rendezvous.exchange(cluster, 300, {"train_steps": 1000})   {worker: its dict}

TensorFlow waits for them without an end, and hears no Ctrl-C meanwhile. So nobody goes to it before
all are there: they come to the chief's port, and the chief tells all when the last has come, or who
is missing. Loads no TensorFlow.

    a worker  {"worker": 1, "statement": {"train_steps": 1000}}
    chief     {"statements": [{"train_steps": 1000}, {"train_steps": 1000}]}  or  {"missing": […]}
"""

import contextlib
import json
import socket
import time
from collections.abc import Mapping
from typing import Any

from ut_keras.files import json_file
from ut_keras.process.interruption import Interrupted
from ut_keras.training.cluster import Cluster, ClusterError, host_and_port

_NAME_SECONDS = 30  # A machine's name may be known a little later than it starts.
_PAUSE_SECONDS = 0.2
_TALK_SECONDS = 5
_LONGEST_LINE = 1 << 20  # bytes


class WorkersMissing(Interrupted):
    """Workers have not come."""

    def __init__(self, seconds: float, missing: str) -> None:
        super().__init__(
            f"All workers must connect within --worker_wait_secs={seconds}. Received no "
            f"connection with {missing}. Run the same command on all workers.",
            exit_code=75,  # "try again", in sysexits.h
        )


def exchange(cluster: Cluster, seconds: float, statement: Mapping[str, Any]) -> dict[str, Any]:
    """Waits until all workers are there; returns what each states, by its address.

    Args:
        seconds: how long to wait.
        statement: this worker's, dict that JSON can hold.

    Raises:
        ClusterError: if this worker's port is taken, or a name cannot be resolved.
        WorkersMissing: if some have not come.
    """
    chief, *others = cluster.workers
    awaited = others if cluster.is_chief else [chief]
    print(f"Waiting at most {seconds} s for {', '.join(awaited)}", flush=True)
    ends_at = time.monotonic() + seconds
    # Where it is not the chief's, to see that TensorFlow will have it.
    with _listener(cluster.workers[cluster.index]) as server:
        if cluster.is_chief:
            answer = _gather(server, cluster.workers, ends_at, statement)
    if not cluster.is_chief:
        answer = _join(cluster, ends_at, statement)
    if "missing" in answer:
        raise WorkersMissing(seconds, ", ".join(answer["missing"]))
    for worker in cluster.workers:
        _check_name(worker)
    return dict(zip(cluster.workers, answer["statements"], strict=True))


def _gather(server, workers, ends_at, statement):
    """The chief's part: hears all, and answers all."""
    statements = {0: statement}
    connections: dict[int, socket.socket] = {}
    server.settimeout(_PAUSE_SECONDS)
    with contextlib.ExitStack() as stack:
        while True:
            # One that was killed meanwhile must come back.
            for index in [i for i in connections if _is_gone(connections[i])]:
                del statements[index], connections[index]
            missing = [each for i, each in enumerate(workers) if i not in statements]
            if not missing or time.monotonic() >= ends_at:
                break
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            stack.enter_context(connection)
            connection.settimeout(_TALK_SECONDS)
            # Anybody may come to a port and say anything.
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                said = _read(connection)
                index, stated = range(1, len(workers)).index(said["worker"]) + 1, said["statement"]
                statements[index], connections[index] = stated, connection
        stated = [statements.get(i) for i in range(len(workers))]
        # As the others receive it.
        answer = json.loads(json.dumps({"missing": missing} if missing else {"statements": stated}))
        for connection in connections.values():
            with contextlib.suppress(OSError):
                connection.sendall(_line(answer))
                connection.recv(1)  # until the other has hung up: then the port is free
    return answer


def _join(cluster, ends_at, statement):
    """The part of the others: what the chief answers."""
    chief = cluster.workers[0]
    while True:
        try:
            with socket.create_connection(host_and_port(chief), _TALK_SECONDS) as connection:
                connection.sendall(_line({"worker": cluster.index, "statement": statement}))
                connection.settimeout(max(0, ends_at - time.monotonic()) + _TALK_SECONDS)
                answer = _read(connection)
                if answer.keys() & {"missing", "statements"}:
                    return answer
                reason: Any = _NO_CHIEF
        except ValueError:
            # One that trains already (it will stop, as this one is missing), or something else.
            reason = _NO_CHIEF
        except OSError as error:
            reason = error.strerror or error
        if time.monotonic() >= ends_at:
            return {"missing": [f"{chief}: {reason}"]}
        time.sleep(_PAUSE_SECONDS)


_NO_CHIEF = "its response is not that of a waiting chief"


def _is_gone(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    finally:
        connection.settimeout(_TALK_SECONDS)


def _line(value):
    return json.dumps(value).encode() + b"\n"


def _read(connection):
    with connection.makefile("rb") as file:
        return json_file.parse(file.readline(_LONGEST_LINE))


def _check_name(worker):
    ends_at = time.monotonic() + _NAME_SECONDS
    while True:
        try:
            socket.getaddrinfo(*host_and_port(worker))
            return
        except (socket.gaierror, UnicodeError) as error:
            if time.monotonic() >= ends_at:
                raise ClusterError(
                    "The workers of TF_CONFIG must have resolvable host names. "
                    f"Received: {worker}: {getattr(error, 'strerror', error)}."
                ) from error
        time.sleep(_PAUSE_SECONDS)


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
            f"The port of this worker in TF_CONFIG must be free. "
            f"Received: {address}: {error.strerror}."
        ) from error


_MOST_SHOWN = 5


def check(statements: Mapping[str, Mapping[str, Any]], index: int) -> None:
    """Compares what all workers state, as `exchange` returns it, with what number `index` does.

    Raises:
        ClusterError: names what differs, and where; all workers raise it, if one does.
    """
    workers = list(statements)
    chief = statements[workers[0]]
    # What differs from the chief: here, or, on the chief, elsewhere.
    for other in [workers[index], *workers]:
        there = statements[other]
        differing = [name for name in {**chief, **there} if chief.get(name) != there.get(name)]
        if differing:
            shown = ", ".join(
                f"{name}={chief.get(name)!r} on {workers[0]} and {there.get(name)!r} on {other}"
                for name in differing[:_MOST_SHOWN]
            )
            more = len(differing) - _MOST_SHOWN
            raise ClusterError(
                "All workers must have the same flags, hparams and data. Received: "
                f"{shown}{f', and {more} more' if more > 0 else ''}."
            )
