"""Fetching from a server on this machine that breaks off, changes, refuses, drips."""

import contextlib
import hashlib
import http.server
import os
import pathlib
import re
import socket
import threading

import pytest

from ut_keras.data.writing import download
from ut_keras.errors import DataError, UserError
from ut_keras.files import whole_file

BODY = bytes(range(256)) * 400


class _Server(http.server.ThreadingHTTPServer):
    """Serves `body` at every path.

    Attributes:
        body: bytes.
        break_after: list of int. The next answers end after so many bytes.
        statuses: list of int or None. The next answers are these errors, or none.
        ranges: bool. Whether it can begin in the middle.
        tag: str, the ETag; None for none.
        seen: list of the Range headers that came.
        drips: bool. Whether answers come a byte now and a byte then, until `over` is set.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.body, self.break_after, self.statuses = BODY, [], []
        self.ranges, self.tag, self.seen = True, '"1"', []
        self.drips, self.over = False, threading.Event()

    def raw_file(self, name="corpus.bin", sha256=None):
        return download.RawFile(name, f"http://127.0.0.1:{self.server_port}/{name}", sha256)


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.seen.append(wanted)
        if server.statuses and (status := server.statuses.pop(0)):
            return self._begin(status, 0)
        offset = int(re.match(r"bytes=(\d+)-", wanted)[1]) if wanted else 0
        if not server.ranges or self.headers.get("If-Range", server.tag) != server.tag:
            offset = 0
        if offset and offset >= len(server.body):
            return self._begin(416, 0, f"bytes */{len(server.body)}")
        part = server.body[offset:]
        size = f"bytes {offset}-{len(server.body) - 1}/{len(server.body)}"
        self._begin(206 if offset else 200, len(part), size if offset else None)
        if server.drips:
            with contextlib.suppress(OSError):  # once it is hung up on
                for place in range(len(part)):
                    self.wfile.write(part[place : place + 1])
                    if server.over.wait(0.02):
                        break
        else:
            self.wfile.write(part[: server.break_after.pop(0)] if server.break_after else part)

    def _begin(self, status, length, content_range=None):
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if content_range:
            self.send_header("Content-Range", content_range)
        if self.server.tag:
            self.send_header("ETag", self.server.tag)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(download, "_WAITS", (0, 0))
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


def test_fetches_once(server, tmp_path):
    raw_file = server.raw_file(sha256=hashlib.sha256(BODY).hexdigest())
    path = download.fetch(str(tmp_path / "raw"), raw_file)
    assert path == str(tmp_path / "raw" / "corpus.bin") and _read(path) == BODY
    assert download.fetch(str(tmp_path / "raw"), raw_file) == path
    assert server.seen == [None] and os.listdir(tmp_path / "raw") == ["corpus.bin"]


def test_says_what_it_waits_for(tmp_path, monkeypatch, capsys):
    """A place that does not answer is named at once, and each time before it is asked again."""
    monkeypatch.setattr(download, "_WAITS", (0, 0))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    raw_file = download.RawFile("corpus.bin", "http://127.0.0.1:9/corpus.bin")
    with pytest.raises(DataError, match="put it there"):
        download.fetch(str(tmp_path), raw_file)
    asking = "corpus.bin: asking http://127.0.0.1:9/corpus.bin"
    again = r"corpus.bin: .*refused; asking again in 0 s"
    shown = "\n".join([asking, again, asking, again, asking, ""])
    assert re.fullmatch(shown, capsys.readouterr().out)


def test_a_file_put_there_by_hand_is_taken(tmp_path):
    (tmp_path / "corpus.bin").write_bytes(b"mine")
    raw_file = download.RawFile("corpus.bin", "http://127.0.0.1:9/unreachable")
    assert _read(download.fetch(str(tmp_path), raw_file)) == b"mine"


def test_wrong_checksum_is_refused(server, tmp_path):
    raw_file = server.raw_file(sha256="0" * 64)
    with pytest.raises(DataError, match="must have the SHA-256 0000"):
        download.fetch(str(tmp_path), raw_file)
    assert not os.path.exists(tmp_path / "corpus.bin")
    (tmp_path / "corpus.bin").write_bytes(b"mine")
    with pytest.raises(DataError, match="remove it to fetch it again"):
        download.fetch(str(tmp_path), raw_file)


def test_goes_on_where_it_broke_off(server, tmp_path):
    server.break_after = [1000, 5000]
    assert _read(download.fetch(str(tmp_path), server.raw_file())) == BODY
    assert server.seen == [None, "bytes=1000-", "bytes=6000-"]


@pytest.mark.parametrize("tag, known_checksum", [('"1"', False), (None, True)])
def test_goes_on_with_what_an_earlier_run_left(server, tmp_path, tag, known_checksum):
    server.tag = tag
    raw_file = server.raw_file(sha256=hashlib.sha256(BODY).hexdigest() if known_checksum else None)
    _leave_a_beginning(server, tmp_path, raw_file)
    assert _read(download.fetch(str(tmp_path), raw_file)) == BODY
    assert server.seen == ["bytes=1000-"] and os.listdir(tmp_path) == ["corpus.bin"]


def _leave_a_beginning(server, tmp_path, raw_file):
    server.break_after, server.statuses = [1000], [None, 404]
    with pytest.raises(DataError, match="HTTP 404"):
        download.fetch(str(tmp_path), raw_file)
    server.seen.clear()
    assert not os.path.exists(tmp_path / "corpus.bin")


@pytest.mark.parametrize("change", ["tag", "no ranges", "no tag, no checksum"])
def test_begins_anew_where_going_on_would_mix_files(server, tmp_path, change):
    server.tag = None if change.startswith("no tag") else server.tag
    _leave_a_beginning(server, tmp_path, server.raw_file())
    server.body = BODY[::-1]
    server.tag = '"2"' if change == "tag" else server.tag
    server.ranges = change != "no ranges"
    assert _read(download.fetch(str(tmp_path), server.raw_file())) == BODY[::-1]


def test_a_whole_file_that_had_not_got_its_name(server, tmp_path):
    raw_file = server.raw_file(sha256=hashlib.sha256(BODY).hexdigest())
    for name, content in (("corpus.bin", BODY), ("other.bin", BODY + b"more")):
        with whole_file.growing(str(tmp_path / name)) as folder:
            pathlib.Path(folder, "content").write_bytes(content)
        assert _read(download.fetch(str(tmp_path), raw_file._replace(name=name))) == BODY
    assert sorted(os.listdir(tmp_path)) == ["corpus.bin", "other.bin"]


@pytest.mark.parametrize("there", ["corpus.bin.incomplete", ".corpus.bin.ut_keras-growing/content"])
def test_files_of_others_are_left(server, tmp_path, there):
    path = tmp_path / there
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(BODY[:1000])
    if path.parent == tmp_path:
        assert _read(download.fetch(str(tmp_path), server.raw_file())) == BODY
    else:
        with pytest.raises(UserError, match="ut_keras-growing must be free"):
            download.fetch(str(tmp_path), server.raw_file())
    assert path.read_bytes() == BODY[:1000]


def test_gives_up_on_a_server_that_breaks_off_again_and_again(server, tmp_path):
    """However often: a few bytes a time would take years."""
    server.break_after = [100] * 50
    with pytest.raises(DataError, match=f"put it there.*300 of {len(BODY)} bytes came"):
        download.fetch(str(tmp_path), server.raw_file())
    assert server.seen == [None, "bytes=100-", "bytes=200-"]
    server.break_after, server.body = [70_000] * 9, BODY * 6  # enough to go on with
    assert _read(download.fetch(str(tmp_path), server.raw_file("other.bin"))) == BODY * 6


def test_gives_up_on_a_server_that_drips(server, tmp_path, monkeypatch):
    """Something comes all the time, and too little."""
    server.drips = True
    monkeypatch.setattr(download, "_TIMEOUT", 0.2)
    with pytest.raises(DataError, match=r"put it there.*\d bytes came in 0.2 s"):
        download.fetch(str(tmp_path), server.raw_file())
    server.over.set()
    assert len(server.seen) == 3 and server.seen[0] is None and "bytes=" in server.seen[1]


def test_an_address_that_is_not_found_in_time(tmp_path, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: over.wait(30))
    monkeypatch.setattr(download, "_TIMEOUT", 0.05)
    monkeypatch.setattr(download, "_WAITS", (0, 0))
    with pytest.raises(DataError, match="put it there.*no answer within 0.05 s"):
        download.fetch(str(tmp_path), download.RawFile("x", "http://nowhere.invalid/x"))
    over.set()


def test_tries_again_after_server_errors(server, tmp_path):
    server.statuses = [503, 503]
    assert _read(download.fetch(str(tmp_path), server.raw_file())) == BODY
    assert len(server.seen) == 3


@pytest.mark.parametrize("statuses, requests", [([404], 1), ([503] * 9, 3)])
def test_says_what_to_put_where(server, tmp_path, statuses, requests):
    server.statuses = list(statuses)
    raw_file = server.raw_file()
    with pytest.raises(DataError) as error:
        download.fetch(str(tmp_path), raw_file)
    for words in ("corpus.bin must be in", str(tmp_path), raw_file.url, f"HTTP {statuses[0]}"):
        assert words in str(error.value)
    assert len(server.seen) == requests and os.listdir(tmp_path) == []


@pytest.mark.parametrize("url, reason", [("http://127.0.0.1:9/x", "refused"), ("", "no place")])
def test_offline(server, tmp_path, url, reason):
    with pytest.raises(DataError, match=f"put it there.*{reason}"):
        download.fetch(str(tmp_path), download.RawFile("x", url))
    with pytest.raises(DataError, match="tmp_dir must be a folder that has x"):
        download.fetch(None, download.RawFile("x", url))
