"""Waits until all workers of a cluster are running, and exchanges their settings.

    fingerprints = rendezvous.exchange(cluster, 300, {"train_steps": 1000})   {worker: settings}

The settings of a worker that must be the same on all workers are called its fingerprint.

TensorFlow waits for the other workers without a time limit, and ignores Ctrl-C during this time.
Therefore every worker calls `exchange` before it starts TensorFlow's cluster. The workers connect
to the port of the chief. When the last worker has connected, the chief sends all fingerprints to
all workers. If the time limit is exceeded, the chief sends the addresses of the missing workers
instead. This module does not import TensorFlow.

    a worker sends  {"worker": 1, "statement": {"train_steps": 1000}}
    the chief sends {"statements": [{"train_steps": 1000}, {"train_steps": 1000}]}
                    or {"missing": […]}

The keys of these messages are the same in all versions of ut_keras. Therefore workers with
different versions can exchange fingerprints and report that their versions differ.
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

# Time limit for host names, because the host name of a new machine may not resolve immediately.
_HOST_NAME_SECONDS = 30
_POLL_SECONDS = 0.2
_SOCKET_TIMEOUT_SECONDS = 5
_MAX_LINE_BYTES = 1 << 20


class WorkersMissing(Interrupted):
    """Some workers did not connect in time."""

    def __init__(self, seconds: float, missing: str) -> None:
        super().__init__(
            f"All workers must connect within --worker_wait_secs={seconds}. Received no "
            f"connection with {missing}. Run the same command on all workers.",
            exit_code=75,  # 75 means "try again" in sysexits.h
        )


def exchange(cluster: Cluster, seconds: float, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Wait for all workers, and exchange their fingerprints.

    Args:
        cluster: `Cluster` of all workers.
        seconds: float, the time limit.
        fingerprint: dict, serializable as JSON, with those settings of this worker that must be the
            same on all workers.

    Returns:
        dict from the address of each worker to its fingerprint.

    Raises:
        ClusterError: if the port of this worker is in use, or a host name cannot be resolved.
        WorkersMissing: if some workers did not connect in time.
    """
    chief, *others = cluster.workers
    expected = others if cluster.is_chief else [chief]
    print(f"Waiting at most {seconds} s for {', '.join(expected)}", flush=True)
    deadline = time.monotonic() + seconds
    # Every worker opens a server on its port. This checks that the port is free for TensorFlow.
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
    """Collect the fingerprints on the chief and send them to all workers."""
    fingerprints = {0: fingerprint}
    connections: dict[int, socket.socket] = {}
    server.settimeout(_POLL_SECONDS)
    with contextlib.ExitStack() as stack:
        while True:
            # A worker that has disconnected is missing until it connects again.
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
            if message := _receive(connection, len(workers)):
                index, received = message
                fingerprints[index], connections[index] = received, connection
        content = {"statements": [fingerprints.get(i) for i in range(len(workers))]}
        if missing:
            content = {"missing": missing}
        # The chief also uses the decoded message, so that all workers compare the same values.
        reply = json.loads(json.dumps(content))
        _send_to_all(connections.values(), reply)
    return reply


def _receive(connection, num_workers):
    """Return (index, fingerprint) of the worker that has connected.

    The result is None for a message in another format, because other programs may connect to the
    port.
    """
    connection.settimeout(_SOCKET_TIMEOUT_SECONDS)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        message = _read(connection)
        if message["worker"] in range(1, num_workers):
            return int(message["worker"]), message["statement"]
    return None


def _send_to_all(connections, reply):
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.sendall(_encode_line(reply))
            # This call returns when the worker has closed the connection. Then the port is free.
            connection.recv(1)


def _report_to_chief(cluster, deadline, fingerprint):
    """Send the fingerprint of this worker to the chief and return the chief's reply."""
    line = _encode_line({"worker": cluster.index, "statement": fingerprint})
    while True:
        reply, reason = _ask_chief(cluster.workers[0], line, deadline)
        if reply is not None:
            return reply
        if time.monotonic() >= deadline:
            return {"missing": [f"{cluster.workers[0]}: {reason}"]}
        time.sleep(_POLL_SECONDS)


def _ask_chief(chief, line, deadline):
    """Send a line to the chief once.

    Returns:
        (reply, ""), or (None, reason) if no chief has replied.
    """
    try:
        with socket.create_connection(host_and_port(chief), _SOCKET_TIMEOUT_SECONDS) as connection:
            connection.sendall(line)
            connection.settimeout(max(0, deadline - time.monotonic()) + _SOCKET_TIMEOUT_SECONDS)
            reply = _read(connection)
    except ValueError:
        # Either another program uses the port, or TensorFlow already runs in the chief. In the
        # second case, the chief will stop, because this worker is missing.
        return None, _NOT_A_WAITING_CHIEF
    except OSError as error:
        return None, error.strerror or error
    if reply.keys() & {"missing", "statements"}:
        return reply, ""
    return None, _NOT_A_WAITING_CHIEF


_NOT_A_WAITING_CHIEF = "the response is not from a chief that waits for workers"


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
        # The server listens on all addresses of the machine. The host name of this worker may
        # resolve to an address that does not belong to this machine.
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
    """Check that all workers have the same fingerprint.

    Args:
        fingerprints: the return value of `exchange`.
        index: int, index of this worker. If this worker differs from the chief, the error describes
            the difference between these two.

    Raises:
        ClusterError: if any worker differs from the chief. In this case, all workers raise the
            error.
    """
    workers = list(fingerprints)
    chief = fingerprints[workers[0]]
    # The chief is first compared with this worker, and then with all workers.
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
