"""Workers wait for each other up to a time limit, and exchange and compare their settings."""

import contextlib
import errno
import os
import re
import socket
import socketserver
import threading
import time

import pytest

from ut_keras.training import cluster, rendezvous
from ut_keras.training.cluster import ClusterError


@pytest.fixture
def addresses():
    """Return three addresses whose ports were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    found = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


def test_exchange_returns_when_all_workers_have_connected(addresses, capsys):
    done = {}

    def exchange(index):
        workers = cluster.Cluster(tuple(addresses), index)
        done[index] = rendezvous.exchange(workers, 60, {"index": index, "both": [1.5, None]})
        # `exchange` must free the port, because TensorFlow then listens on this port.
        with socket.create_server(("127.0.0.1", int(addresses[index].rpartition(":")[2]))):
            everybody.wait(60)

    everybody = threading.Event()
    threads = [threading.Thread(target=exchange, args=(index,), daemon=True) for index in range(3)]
    for thread in threads[:2]:
        thread.start()
    while f" s for {addresses[0]}\n" not in capsys.readouterr().out:
        time.sleep(0.01)
    time.sleep(0.3)
    assert not done
    threads[2].start()
    while len(done) < 3:
        assert all(thread.is_alive() for thread in threads)
        time.sleep(0.01)
    everybody.set()
    for thread in threads:
        thread.join(60)
    stated = {address: {"index": i, "both": [1.5, None]} for i, address in enumerate(addresses)}
    for fingerprints in done.values():
        assert list(fingerprints.items()) == list(stated.items())


def test_exchange_waits_for_a_worker_that_disconnected(addresses):
    port = int(addresses[0].rpartition(":")[2])

    def come_and_go():
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                    connection.sendall(b'{"worker": 1, "statement": {}}\n')
                return

    threading.Thread(target=come_and_go, daemon=True).start()
    assert f"no connection with {addresses[1]}, {addresses[2]}." in _wait_in_vain(
        addresses, seconds=1
    )


def _answering(port, reply):
    """Start and return a server that sends the same reply to every client."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(100)
            self.request.sendall(reply)

    server = socketserver.TCPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


def _wait_in_vain(workers, index=0, seconds=0):
    with pytest.raises(rendezvous.WorkersMissing) as caught:
        rendezvous.exchange(cluster.Cluster(tuple(workers), index), seconds, {})
    assert caught.value.exit_code == 75
    return str(caught.value)


def test_missing_workers_are_named(addresses):
    expected = rf"--worker_wait_secs=0\. Received .* {addresses[1]}, {addresses[2]}\."
    assert re.search(expected, _wait_in_vain(addresses))
    assert f"{addresses[0]}: {os.strerror(errno.ECONNREFUSED)}" in _wait_in_vain(addresses, 1)


def test_missing_workers_are_named_on_every_worker(addresses):
    messages = []
    waiting = threading.Thread(
        target=lambda: messages.append(_wait_in_vain(addresses, 1, seconds=30)), daemon=True
    )
    waiting.start()
    messages.append(_wait_in_vain(addresses, seconds=2))
    waiting.join(30)
    assert len(messages) == 2 and all(f" {addresses[2]}. " in line for line in messages)


_NONE = rendezvous._NOT_A_WAITING_CHIEF


@pytest.mark.parametrize(
    "reply, reason",
    [
        (b"", _NONE),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", _NONE),
        (b"[1]\n", _NONE),
        (b"{}\n", _NONE),
    ],
)
def test_exchange_reports_another_program_on_the_port(addresses, reply, reason):
    server = _answering(int(addresses[0].rpartition(":")[2]), reply)
    try:
        assert f"{addresses[0]}: {reason}" in _wait_in_vain(addresses[:2], 1)
    finally:
        server.shutdown()
        server.server_close()


def test_exchange_ignores_messages_of_other_programs(addresses):
    """Another program that connects gets no reply and does not delay the workers."""
    port = int(addresses[0].rpartition(":")[2])

    def talk():
        strange = (b'{"worker": 1}', b'{"worker": 9, "statement": {}}\n', b'{"worker": []}\n')
        for message in (b"GET / HTTP/1.1\r\n\r\n", *strange, b"\xff\n", b"[]\n", b""):
            while True:
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                        connection.sendall(message)
                    break
                except ConnectionRefusedError:
                    time.sleep(0.01)

    talking = threading.Thread(target=talk, daemon=True)
    talking.start()
    assert f"no connection with {addresses[1]}." in _wait_in_vain(addresses[:2], seconds=1)
    talking.join(30)
    assert not talking.is_alive()


@pytest.mark.parametrize("name", ["no-such-host.invalid", "x" * 64, "a..b"])
def test_exchange_rejects_unresolvable_host_names(addresses, name, monkeypatch):
    monkeypatch.setattr(rendezvous, "_HOST_NAME_SECONDS", 0)
    workers = (addresses[0], f"{name}:{addresses[1].rpartition(':')[2]}")
    chief = threading.Thread(target=lambda: errors.append(_cluster_error(workers, 0)), daemon=True)
    errors = []
    chief.start()
    errors.append(_cluster_error(workers, 1))
    chief.join(30)
    assert len(errors) == 2
    assert all(
        f"TF_CONFIG must have resolvable host names. Received: {workers[1]}: " in line
        for line in errors
    )


def _cluster_error(workers, index):
    with pytest.raises(cluster.ClusterError) as caught:
        rendezvous.exchange(cluster.Cluster(workers, index), 30, {})
    return str(caught.value)


def test_exchange_rejects_a_port_in_use(addresses):
    with (
        socket.create_server(("127.0.0.1", int(addresses[0].rpartition(":")[2]))),
        pytest.raises(cluster.ClusterError, match=f"TF_CONFIG .*Received: {addresses[0]}: "),
    ):
        rendezvous.exchange(cluster.Cluster(tuple(addresses), 0), 60, {})


_SAME = {"problem": "p", "train_steps": 9, "hparam hidden_size": 8, "train_data": "1 files"}


@pytest.mark.parametrize(
    "name, value", [("train_steps", 8), ("hparam x", 12), ("train_data", None), ("new", 1)]
)
def test_check_names_the_difference_on_every_worker(name, value):
    fingerprints = {"a:1": _SAME, "b:1": {**_SAME, name: value}, "c:1": dict(_SAME)}
    for index in range(3):
        with pytest.raises(ClusterError) as error:
            rendezvous.check(fingerprints, index)
        expected = f"{name}={_SAME.get(name)!r} on a:1 and {value!r} on b:1."
        assert str(error.value).endswith(f". Received: {expected}")


def test_check_names_the_workers_own_difference():
    """The error on each worker names the setting in which this worker differs from the chief."""
    fingerprints = {"a:1": _SAME, "b:1": {**_SAME, "train_steps": 8}, "c:1": {**_SAME, "x": 1}}
    for index, expected in enumerate(("train_steps=9", "train_steps=9", "x=None")):
        with pytest.raises(ClusterError, match=f"Received: {expected} on a:1"):
            rendezvous.check(fingerprints, index)


def test_check_shortens_many_differences():
    other = {name: "other" for name in "abcdefgh"}
    with pytest.raises(ClusterError, match="e=None on a:1 and 'other' on b:1, and 3 more.$"):
        rendezvous.check({"a:1": {}, "b:1": other}, 1)


def test_check_accepts_equal_workers():
    rendezvous.check({"a:1": _SAME, "b:1": dict(_SAME)}, 1)
