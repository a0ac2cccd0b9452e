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

_HOST_NAME_SECONDS = 30  # A machine's name may be known a little later than it starts.
_POLL_SECONDS = 0.2
_SOCKET_TIMEOUT_SECONDS = 5
_MAX_LINE_BYTES = 1 << 20  # bytes


class WorkersMissing(Interrupted):
    """Workers have not come."""

    def __init__(self, seconds: float, missing: str) -> None:
        super().__init__(
            f"All workers must connect within --worker_wait_secs={seconds}. Received no "
            f"connection with {missing}. Run the same command on all workers.",
            exit_code=75,  # "try again", in sysexits.h
        )


def exchange(cluster: Cluster, seconds: float, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Waits until all workers are there; returns what each states, by its address.

    Args:
        seconds: how long to wait.
        statement: this worker's, dict that JSON can hold.

    Raises:
        ClusterError: if this worker's port is taken, or a name cannot be resolved.
        WorkersMissing: if some have not come.
    """
    chief, *others = cluster.workers
    expected = others if cluster.is_chief else [chief]
    print(f"Waiting at most {seconds} s for {', '.join(expected)}", flush=True)
    deadline = time.monotonic() + seconds
    # Where it is not the chief's, to see that TensorFlow will have it.
    with _listener(cluster.workers[cluster.index]) as server:
        if cluster.is_chief:
            reply = _gather(server, cluster.workers, deadline, fingerprint)
    if not cluster.is_chief:
        reply = _report_to_chief(cluster, deadline, fingerprint)
    if "missing" in reply:
        raise WorkersMissing(seconds, ", ".join(reply["missing"]))
    for worker in cluster.workers:
        _wait_for_host_name(worker)
    return dict(zip(cluster.workers, reply["statements"], strict=True))


def _gather(server, workers, deadline, fingerprint):
    """The chief's part: hears all, and answers all."""
    fingerprints = {0: fingerprint}
    connections: dict[int, socket.socket] = {}
    server.settimeout(_POLL_SECONDS)
    with contextlib.ExitStack() as stack:
        while True:
            # One that was killed meanwhile must come back.
            for index in [i for i in connections if _is_disconnected(connections[i])]:
                del fingerprints[index], connections[index]
            missing = [each for i, each in enumerate(workers) if i not in fingerprints]
            if not missing or time.monotonic() >= deadline:
                break
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            stack.enter_context(connection)
            connection.settimeout(_SOCKET_TIMEOUT_SECONDS)
            # Anybody may come to a port and say anything.
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                message = _read(connection)
                index = range(1, len(workers)).index(message["worker"]) + 1
                fingerprints[index], connections[index] = message["statement"], connection
        received = [fingerprints.get(i) for i in range(len(workers))]
        # As the others receive it.
        content = {"missing": missing} if missing else {"statements": received}
        reply = json.loads(json.dumps(content))
        for connection in connections.values():
            with contextlib.suppress(OSError):
                connection.sendall(_encode_line(reply))
                connection.recv(1)  # until the other has hung up: then the port is free
    return reply


def _report_to_chief(cluster, deadline, fingerprint):
    """The part of the others: what the chief answers."""
    chief = cluster.workers[0]
    while True:
        try:
            with socket.create_connection(
                host_and_port(chief), _SOCKET_TIMEOUT_SECONDS
            ) as connection:
                connection.sendall(
                    _encode_line({"worker": cluster.index, "statement": fingerprint})
                )
                connection.settimeout(max(0, deadline - time.monotonic()) + _SOCKET_TIMEOUT_SECONDS)
                reply = _read(connection)
                if reply.keys() & {"missing", "statements"}:
                    return reply
                reason: Any = _NOT_A_WAITING_CHIEF
        except ValueError:
            # One that trains already (it will stop, as this one is missing), or something else.
            reason = _NOT_A_WAITING_CHIEF
        except OSError as error:
            reason = error.strerror or error
        if time.monotonic() >= deadline:
            return {"missing": [f"{chief}: {reason}"]}
        time.sleep(_POLL_SECONDS)


_NOT_A_WAITING_CHIEF = "its response is not that of a waiting chief"


def _is_disconnected(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    finally:
        connection.settimeout(_SOCKET_TIMEOUT_SECONDS)


def _encode_line(value):
    return json.dumps(value).encode() + b"\n"


def _read(connection):
    with connection.makefile("rb") as file:
        return json_file.parse(file.readline(_MAX_LINE_BYTES))


def _wait_for_host_name(worker):
    deadline = time.monotonic() + _HOST_NAME_SECONDS
    while True:
        try:
            socket.getaddrinfo(*host_and_port(worker))
            return
        except (socket.gaierror, UnicodeError) as error:
            if time.monotonic() >= deadline:
                raise ClusterError(
                    "The workers of TF_CONFIG must have resolvable host names. "
                    f"Received: {worker}: {getattr(error, 'strerror', error)}."
                ) from error
        time.sleep(_POLL_SECONDS)


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


_MAX_DIFFERENCES_SHOWN = 5


def check(fingerprints: Mapping[str, Mapping[str, Any]], index: int) -> None:
    """Compares what all workers state, as `exchange` returns it, with what number `index` does.

    Raises:
        ClusterError: names what differs, and where; all workers raise it, if one does.
    """
    workers = list(fingerprints)
    chief = fingerprints[workers[0]]
    # What differs from the chief: here, or, on the chief, elsewhere.
    for other in [workers[index], *workers]:
        values = fingerprints[other]
        differing = [name for name in {**chief, **values} if chief.get(name) != values.get(name)]
        if differing:
            shown = ", ".join(
                f"{name}={chief.get(name)!r} on {workers[0]} and {values.get(name)!r} on {other}"
                for name in differing[:_MAX_DIFFERENCES_SHOWN]
            )
            more = len(differing) - _MAX_DIFFERENCES_SHOWN
            raise ClusterError(
                "All workers must have the same flags, hparams and data. Received: "
                f"{shown}{f', and {more} more' if more > 0 else ''}."
            )
