"""Tests of downloads from a local server that closes connections or returns errors."""

import hashlib
import http.server
import os
import re
import threading

import pytest

from ut_keras.data.writing import download
from ut_keras.errors import DataError

BODY = bytes(range(256)) * 400


class _Server(http.server.ThreadingHTTPServer):
    """A server that returns `BODY` at every path.

    Attributes:
        break_after: list of int, the numbers of bytes after which the next responses end.
        statuses: list of int, the HTTP errors that the next responses return.
        num_requests: int, the number of requests so far.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.break_after, self.statuses, self.num_requests = [], [], 0

    def raw_file(self, name="corpus.bin", sha256=None):
        return download.RawFile(name, f"http://127.0.0.1:{self.server_port}/{name}", sha256)


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.num_requests += 1
        if server.statuses:
            self._begin(server.statuses.pop(0), 0)
            return
        self._begin(200, len(BODY))
        self.wfile.write(BODY[: server.break_after.pop(0)] if server.break_after else BODY)

    def _begin(self, status, length):
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(download, "_RETRY_SECONDS", (0, 0))
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def test_fetch_downloads_once(server, tmp_path):
    raw_file = server.raw_file(sha256=hashlib.sha256(BODY).hexdigest())
    path = download.fetch(str(tmp_path / "raw"), raw_file)
    assert path == str(tmp_path / "raw" / "corpus.bin") and _read(path) == BODY
    assert download.fetch(str(tmp_path / "raw"), raw_file) == path
    assert server.num_requests == 1 and os.listdir(tmp_path / "raw") == ["corpus.bin"]


def test_fetch_reports_requests_and_retries(tmp_path, monkeypatch, capsys):
    """`fetch` prints the URL before the first request and before each retry."""
    monkeypatch.setattr(download, "_RETRY_SECONDS", (0, 0))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    raw_file = download.RawFile("corpus.bin", "http://127.0.0.1:9/corpus.bin")
    with pytest.raises(DataError, match="corpus.bin must be in tmp_dir"):
        download.fetch(str(tmp_path), raw_file)
    asking = "corpus.bin: requesting http://127.0.0.1:9/corpus.bin"
    again = r"corpus.bin: .*; trying again in 0 s"
    shown = "\n".join([asking, again, asking, again, asking, ""])
    assert re.fullmatch(shown, capsys.readouterr().out)


def test_fetch_uses_existing_file(tmp_path):
    (tmp_path / "corpus.bin").write_bytes(b"mine")
    raw_file = download.RawFile("corpus.bin", "http://127.0.0.1:9/unreachable")
    assert _read(download.fetch(str(tmp_path), raw_file)) == b"mine"


def test_fetch_keeps_broken_link(server, tmp_path):
    (tmp_path / "corpus.bin").symlink_to(tmp_path / "disk" / "corpus.bin")
    with pytest.raises(DataError, match="corpus.bin must be in tmp_dir.*broken link"):
        download.fetch(str(tmp_path), server.raw_file())
    assert (tmp_path / "corpus.bin").is_symlink() and not server.num_requests


def test_fetch_rejects_wrong_checksum(server, tmp_path):
    raw_file = server.raw_file(sha256="0" * 64)
    with pytest.raises(DataError, match="must have the SHA-256 0000"):
        download.fetch(str(tmp_path), raw_file)
    assert not os.path.exists(tmp_path / "corpus.bin")
    (tmp_path / "corpus.bin").write_bytes(b"mine")
    with pytest.raises(DataError, match="SHA-256 .*Remove it"):
        download.fetch(str(tmp_path), raw_file)


def test_fetch_retries_after_closed_connections(server, tmp_path):
    server.break_after = [1000, 5000]
    assert _read(download.fetch(str(tmp_path), server.raw_file())) == BODY
    assert server.num_requests == 3


def test_fetch_leaves_nothing_after_failed_retries(server, tmp_path):
    server.break_after = [100] * 9
    with pytest.raises(DataError, match=f"must be in tmp_dir.* 100 of {len(BODY)} bytes"):
        download.fetch(str(tmp_path), server.raw_file())
    assert server.num_requests == 3 and os.listdir(tmp_path) == []


def test_fetch_retries_after_server_errors(server, tmp_path):
    server.statuses = [503, 503]
    assert _read(download.fetch(str(tmp_path), server.raw_file())) == BODY
    assert server.num_requests == 3


@pytest.mark.parametrize("statuses, requests", [([404], 1), ([503] * 9, 3)])
def test_fetch_error_says_which_file_to_put_where(server, tmp_path, statuses, requests):
    server.statuses = list(statuses)
    raw_file = server.raw_file()
    with pytest.raises(DataError) as error:
        download.fetch(str(tmp_path), raw_file)
    for words in ("corpus.bin must be in", str(tmp_path), raw_file.url, f"HTTP {statuses[0]}"):
        assert words in str(error.value)
    assert server.num_requests == requests and os.listdir(tmp_path) == []


@pytest.mark.parametrize("url, reason", [("http://127.0.0.1:9/x", "refused"), ("", "downloaded")])
def test_fetch_without_network_raises(server, tmp_path, url, reason):
    with pytest.raises(DataError, match=f"must be in tmp_dir.*{reason}"):
        download.fetch(str(tmp_path), download.RawFile("x", url))
    with pytest.raises(DataError, match="tmp_dir must be a folder that has x"):
        download.fetch(None, download.RawFile("x", url))


@pytest.mark.parametrize(
    "start", [b"\n<!DOCTYPE html>", b"\xef\xbb\xbf<HTML lang='en'>", b"<head>"]
)
def test_html_page_instead_of_a_file_is_an_error(tmp_path, start, server, monkeypatch):
    """Without the error, a list of words would consist of the lines of the page."""
    raw_file = server.raw_file("words.txt")
    monkeypatch.setitem(globals(), "BODY", start + b"<p>Please log in.</p>")
    with pytest.raises(DataError, match="words.txt must be .*Received: an HTML page"):
        download.fetch(str(tmp_path), raw_file)
    assert not (tmp_path / "words.txt").exists()
    (tmp_path / "words.txt").write_bytes(start)
    with pytest.raises(DataError, match="an HTML page"):
        download.fetch(str(tmp_path), raw_file)
    assert download.fetch(str(tmp_path), raw_file._replace(may_be_html=True))
    (tmp_path / "words.txt").write_bytes(b"<htmlish> is a word\n")
    assert download.fetch(str(tmp_path), raw_file)
