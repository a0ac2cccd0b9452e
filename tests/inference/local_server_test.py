import concurrent.futures
import contextlib
import http.client
import json
import socket
import threading
import time

import pytest

from tests.inference import shouting
from ut_keras.inference import local_server


@pytest.fixture(scope="module")
def address():
    """ "host:port" of a server that shouts."""
    with shouting.serving() as address:
        yield address


def test_answers_as_tensorflow_serving(address):
    texts = ["so", {"b64": "/yA="}, {"inputs": "cool"}, {"inputs": {"b64": "eA=="}}, "\ud800"]
    status, answer = shouting.post(address, json.dumps({"instances": texts}))
    assert status == 200
    outputs = [row["outputs"][0] for row in answer["predictions"]]
    assert outputs == ["SO", "\ufffd ", "COOL", "X", "?"]
    assert answer["predictions"][0]["scores"] == [-0.25, -1.5]
    assert shouting.post(address, '{"instances": []}') == (200, {"predictions": []})
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/v1/models/shout")
    assert json.loads(connection.getresponse().read())["model_version_status"]
    connection.close()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xff\xfe", 400),
        (b"[]", 400),
        (b"[" * 590, 400),
        (b'{"instances": "text"}', 400),
        (b'{"instances": {"b64": "eA=="}}', 400),
        (b'{"instances": [7]}', 400),
        (b'{"instances": [{"b64": "?"}]}', 400),
        (b'{"instances": [{"b64": 7}]}', 400),
        (b'{"instances": [{"inputs": {"inputs": "x"}}]}', 400),
        (b'{"instances": ["x"], "signature_name": "ids"}', 400),
        (b'{"instances": ["' + b"x" * 41 + b'"]}', 413),
        (b'{"instances": ["' + b"x" * 40 + b'"' + b', ""' * 8 + b"]}", 413),
        (b'{"instances": [' + b'"",' * 20 + b'""]}', 413),
        (b'{"instances": ["' + b"x" * 900 + b'"]}', 413),
        (b"x" * 2**22, 413),  # more than the sockets hold: read, so that the client can listen
    ],
)
def test_what_it_refuses(address, body, status):
    found, answer = shouting.post(address, body)
    assert found == status
    if status != 200:
        assert len(answer["error"]) < 250 and "Traceback" not in answer["error"]
    assert shouting.post(address, '{"instances": ["x"]}')[0] == 200


def _raw(address, text):
    """(status, answer) for bytes after which the client says no more."""
    with shouting.connected(address) as client:
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        answer = client.makefile("rb").read()
    return int(answer.split()[1]), answer


def _predict(rest):
    return b"POST /v1/models/shout:predict HTTP/1.1\r\nHost: x\r\n" + rest


def test_sizes_that_are_none(address):
    body = b'{"instances": ["x"]}'
    for length in (b"-1", b"x", b"9" * 30):
        said = _predict(b"Content-Length: " + length + b"\r\n\r\n" + body)
        assert _raw(address, said)[0] == 400
    # Shorter than it says, and without saying it.
    assert _raw(address, _predict(b"\r\n"))[0] == 400
    status, answer = _raw(address, _predict(b"Content-Length: 99\r\n\r\n" + body))
    assert status == 400 and b"must have its Content-Length. Received: 99, 20 bytes" in answer
    assert _raw(address, _predict(b"Content-Length: 20\r\n\r\n" + body))[0] == 200
    chunked = b"Transfer-Encoding: chunked\r\n\r\n14\r\n" + body + b"\r\n0\r\n\r\n"
    assert _raw(address, _predict(chunked))[0] == 400
    assert _raw(address, b"DELETE / HTTP/1.0\r\n\r\n")[0] == 404
    assert _raw(address, b"\0\xff\r\n\r\n")[0] == 400


def test_a_client_that_says_nothing_is_hung_up_on(address):
    with contextlib.ExitStack() as slow:
        clients = [slow.enter_context(shouting.connected(address)) for _ in range(3)]
        for client, said in zip(clients, (b"", b"GET / HT", _predict(b"X: y\r\n")), strict=True):
            client.sendall(said)
        assert [client.recv(1) for client in clients] == [b""] * 3


def test_a_client_that_dribbles_is_hung_up_on(address):
    with shouting.connected(address) as client, pytest.raises(OSError):
        client.sendall(b"GET / HTTP/1.0\r\n")
        for _ in range(60):
            client.sendall(b"X: y\r\n")
            time.sleep(0.2)


def test_a_body_that_does_not_come_is_told(address):
    with shouting.connected(address) as client:
        client.sendall(_predict(b"Content-Length: 9\r\n\r\n{"))
        assert b" 408 " in client.makefile("rb").readline()


def test_slow_clients_block_nobody(address):
    """As many as were served at all before; they hold nothing that another one needs."""
    with contextlib.ExitStack() as slow:
        clients = [slow.enter_context(shouting.connected(address)) for _ in range(50)]
        for number, client in enumerate(clients):
            client.sendall(_predict(b"Content-Length: 9\r\n\r\n{")[: 20 * number + 1])
        assert shouting.post(address, '{"instances": ["x"]}')[0] == 200


def test_too_many_are_told_so(monkeypatch):
    monkeypatch.setattr(local_server, "_CONNECTIONS", 4)
    with shouting.serving(timeout_secs=20) as address, contextlib.ExitStack() as slow:
        for _ in range(4):
            slow.enter_context(shouting.connected(address))
        status, _ = _raw(address, b"GET /v1/models/shout HTTP/1.0\r\n\r\n")
        assert status == 503
        for _ in range(4):
            slow.enter_context(shouting.connected(address))
        with shouting.connected(
            address
        ) as client:  # and hung up on where they only fill the memory
            assert client.recv(1) == b""


def test_a_model_that_is_busy(caplog):
    going = threading.Event()

    def answer(texts):
        going.wait(30)
        return shouting.upper(texts)

    body = '{"instances": ["x"]}'
    with shouting.serving(answer) as address, concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = [pool.submit(shouting.post, address, body) for _ in range(3)]
        done, _ = concurrent.futures.wait(waiting, return_when="FIRST_COMPLETED")
        assert done.pop().result() == (503, {"error": "The server is busy."})
        going.set()
        assert sorted(future.result()[0] for future in waiting) == [200, 200, 503]
    assert "503: The server is busy." in caplog.text


def test_a_fault_of_ours_is_logged(caplog):
    def answer(texts):
        raise ZeroDivisionError("a fault")

    with shouting.serving(answer) as address:
        status, shown = _raw(address, _predict(b'Content-Length: 20\r\n\r\n{"instances": ["x"]}'))
    assert status == 500 and b"fault" not in shown
    assert "ZeroDivisionError: a fault" in caplog.text
