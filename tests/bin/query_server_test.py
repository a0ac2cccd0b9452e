import contextlib
import http.server
import json
import re
import socket
import threading

import pytest

from tests.bin import small_run
from ut_keras.bin import query_server
from ut_keras.errors import UsageError


class _Shouting(http.server.BaseHTTPRequestHandler):
    """A handler that responds like TensorFlow Serving, with the beams text.upper() and text."""

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
        outputs = [[text.encode().upper().decode(), text] for text in texts]
        rows = [{"outputs": row, "scores": [-0.25, -1.5]} for row in outputs]
        status, answer = 200, {"predictions": rows}
        if self.path != "/v1/models/shout:predict":
            status, answer = 404, {"error": f"Servable not found: {self.path}"}
        elif max(map(len, texts)) > 40:
            status, answer = 413, {"error": "A text must have at most 40 bytes."}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    """Yield the "host:port" of a running server with the handler `_Shouting`."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Shouting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def _main(*argv):
    return query_server.main(list(argv))


def test_inputs_once_prints_the_outputs(address, capsys):
    known = [f"--server=http://{address}/", "--servable_name=shout"]
    assert _main(*known, "--inputs_once=so \u00e9", "--problem=x", "--data_dir=y") == 0
    shown = "\nInput:\nso \u00e9\n\nOutput (Scores [-0.250,-1.500]):\nSO \u00e9\nso \u00e9\n"
    assert capsys.readouterr().out == shown


def test_typed_lines_are_sent(address, capsys, monkeypatch):
    lines = iter(["one", "w" * 50, "two\r"])

    def typed(prompt):
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    assert _main(f"--server={address}", "--servable_name=shout") == 0
    shown = capsys.readouterr()
    assert "ONE" in shown.out and "\nTWO\ntwo\n" in shown.out
    assert "status 413" in shown.err and "at most 40 bytes" in shown.err


def test_unreachable_and_invalid_servers_are_rejected(address, capsys):
    def error(*argv):
        return small_run.error(capsys, query_server.main, list(argv))

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    ask = ["--servable_name=shout", "--inputs_once=x"]
    assert "must be the REST API" in error(f"--server={nobody}", *ask)
    assert "must be the REST API" in error("--server=127.0.0.1:x", *ask)
    assert "must be host:port" in error("--server=https://localhost:1", *ask)
    assert "must be host:port" in error("--server=localhost:1/v1/models", *ask)
    line = error(f"--server={address}", "--servable_name=a/b c", "--inputs_once=x")
    assert "status 404" in line and "/v1/models/a%2Fb%20c:predict" in line
    assert "Check --servable_name" in line
    assert "port must be from 1 to 65535" in error("--server=localhost:99999", *ask)
    assert "must be the REST API" in error("--server=localhost\r\n:1", *ask)
    assert "must be UTF-8" in error("--server=localhost:1", "--servable_name=\udcff", ask[1])
    assert "must be UTF-8" in error("--server=localhost:1", ask[0], "--inputs_once=\ud800")
    assert "must be the REST API" in error(f"--server={'x' * 70}:1", *ask)
    assert "--server is required" in error("--servable_name=shout")
    assert "--servable_name is required" in error("--server=localhost:1")
    assert "timeout_secs must be at least 1" in error("--timeout_secs=0", *ask)
    assert "Cloud ML" in error("--cloud_mlengine_model_name=x")


@contextlib.contextmanager
def _dripping(before, then=b" ", every=0.05):
    """Yield the "host:port" of a server that sends its response slowly."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def drip():
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):
                while not client.recv(65536).endswith(b"}"):
                    pass
                client.sendall(before)
                while then and not over.wait(every):
                    client.sendall(then)

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_slow_server_times_out(before):
    late = pytest.raises(UsageError, match="TimeoutError no response within 0.2 s")
    with _dripping(before) as address, late:
        query_server.predict(address, "shout", ["x"], 0.2)


def _answer(**changed):
    return json.dumps({"predictions": [{"outputs": ["X"], "scores": [0.5], **changed}]})


@pytest.mark.parametrize(
    "content",
    [
        *["", "<html>", "null", "[]", '"predictions"', "[" * 100_000, '{"other": 1}', "\xff"],
        *[json.dumps({"predictions": rows}) for rows in ([], 3, [1], ["x"], [{}], None)],
        '{"predictions": [{"outputs": [], "scores": []}, {"outputs": [], "scores": []}]}',
        *[_answer(scores=scores) for scores in ([], [1, 2], ["x"], [None], [10**400], 1)],
        *[_answer(outputs=outputs) for outputs in ("X", [], [1], [["X"]], {"X": 1}, None)],
    ],
)
def test_invalid_response_is_rejected(content):
    head = f"HTTP/1.0 200 OK\r\n\r\n{content}".encode("latin-1")
    wrong = pytest.raises(UsageError, match="must be JSON with predictions.*Received: status 200, ")
    with _dripping(head, b"") as address, wrong:
        query_server.predict(address, "shout", ["x"], 60)


_HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "before, then, message",
    [
        (b"", b"", "RemoteDisconnected"),
        (b"SSH-2.0-x\x1b[2J\r\n", b"", "BadStatusLine SSH-2.0-x"),
        (_HEAD + b"Content-Length: 99\r\n\r\n{", b"", "Received: status 200, '{'"),
        (_HEAD + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", b"", "IncompleteRead"),
        (_HEAD, b"X: " + b"y" * 2**16, "LineTooLong"),
        (_HEAD, b"X: y\r\n" * 100, "HTTPException got more than 100 headers"),
        (_HEAD + b"\r\n", b"[" * 2**20, "at most 8388608 bytes. Received: status 200, '"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n", b"", "Received: status 302, ''"),
    ],
)
def test_truncated_or_endless_response_is_rejected(before, then, message):
    wrong = pytest.raises(UsageError, match=re.escape(message))
    with _dripping(before, then, 0) as address, wrong:
        query_server.predict(address, "shout", ["x"], 60)


def test_response_is_escaped_for_the_terminal(capsys):
    content = _answer(outputs=["a\x1b[2Jb", "\ud800", "\u202ec"], scores=[1, 2, 3])
    ask = ["--servable_name=shout", "--inputs_once=x"]
    with _dripping(f"HTTP/1.0 200 OK\r\n\r\n{content}".encode(), b"") as address:
        assert _main(f"--server={address}", *ask) == 0
    assert capsys.readouterr().out.endswith("\na\\x1b[2Jb\n\\ud800\n\\u202ec\n")
    content = json.dumps({"error": "no\x1b[2J \ud800"})
    with _dripping(f"HTTP/1.0 500 No\r\n\r\n{content}".encode(), b"") as address:
        line = small_run.error(capsys, query_server.main, [f"--server={address}", *ask])
    assert line.endswith(r"status 500: no\x1b[2J \ud800")


def test_slow_dns_lookup_times_out(monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: over.wait(30))
    with pytest.raises(UsageError, match="no response within 0.05 s"):
        query_server.predict("nowhere.invalid:80", "shout", ["x"], 0.05)
    over.set()
