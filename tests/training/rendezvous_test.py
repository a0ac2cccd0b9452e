"""Workers wait for each other, as long as they are told to."""

import socket
import threading
import time

import pytest

from ut_keras.training import cluster, rendezvous


@pytest.fixture
def addresses():
    """Three addresses whose ports were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    found = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


def test_all_go_on_when_the_last_has_come(addresses, capsys):
    done = []

    def wait(index):
        rendezvous.wait(cluster.Cluster(tuple(addresses), index), 60)
        done.append(index)
        # TensorFlow listens there now.
        with socket.create_server(("127.0.0.1", int(addresses[index].rpartition(":")[2]))):
            everybody.wait(60)

    everybody = threading.Event()
    threads = [threading.Thread(target=wait, args=(index,), daemon=True) for index in range(3)]
    for thread in threads[:2]:
        thread.start()
    while capsys.readouterr().out.count(addresses[2]) < 1:
        time.sleep(0.01)
    assert not done
    threads[2].start()
    while len(done) < 3:
        assert all(thread.is_alive() for thread in threads)
        time.sleep(0.01)
    everybody.set()
    for thread in threads:
        thread.join(60)


def test_who_has_not_come_is_named(addresses):
    listening = socket.create_server(("127.0.0.1", int(addresses[1].rpartition(":")[2])))
    expected = rf"--worker_wait_secs=0\. Received no answer from {addresses[2]}: .*refused"
    with listening, pytest.raises(rendezvous.WorkersMissing, match=expected) as caught:
        rendezvous.wait(cluster.Cluster(tuple(addresses), 0), 0)
    assert caught.value.exit_code == 75
    assert addresses[1] not in str(caught.value)


@pytest.mark.parametrize("name", ["no-such-host.invalid", "x" * 64, "a..b"])
def test_names_that_do_not_resolve(addresses, name):
    workers = (addresses[0], f"{name}:2222")
    with pytest.raises(cluster.ClusterError, match=f"can be resolved. Received: {name}:2222: "):
        rendezvous.wait(cluster.Cluster(workers, 0), 0)


def test_a_port_that_is_taken(addresses):
    with (
        socket.create_server(("127.0.0.1", int(addresses[0].rpartition(":")[2]))),
        pytest.raises(cluster.ClusterError, match=f"free to listen on. Received: {addresses[0]}: "),
    ):
        rendezvous.wait(cluster.Cluster(tuple(addresses), 0), 60)
