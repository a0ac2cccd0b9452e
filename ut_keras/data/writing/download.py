"""Raw files from their official places: fetched once and checked.

    corpus = download.RawFile("corpus.tgz", "https://example.org/corpus.tgz", sha256="9f86d0…")
    path = download.fetch(tmp_dir, corpus)                               tmp_dir/corpus.tgz

A file that lies in `tmp_dir` is taken as it is, if its checksum is right; so it can also be put
there by hand. A download grows in a folder of `whole_file`, goes on where it was broken off, and
gets its name when it is whole. (The download manager of tensorflow-datasets, which is used where it
has a builder, neither goes on nor keeps the names that T2T's folders have, and loads in seconds;
pooch 1.9 keeps nothing of a download that broke off, and so begins anew.)
"""

import contextlib
import functools
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from typing import NamedTuple

from ut_keras.errors import DataError
from ut_keras.files import file_error, whole_file
from ut_keras.process import deadline, live_line

_BLOCK = 1 << 20  # bytes
_TIMEOUT = 60  # seconds until an answer begins
_LEAST = 60_000  # bytes that must come in so many seconds
_WAITS = (1, 4, 15)  # seconds before each new try; one that brings the least begins the row anew


class RawFile(NamedTuple):
    """A file that a problem is made of.

    Fields:
        name: str. Its name in tmp_dir.
        url: str. The official place; "" if there is none that can be downloaded from.
        sha256: str, in hexadecimal; None if it is not known.
        licence: str. What it may be used for.
        members: tuple of str. Of an archive, patterns for the names of what is wanted.
        most_bytes: int. Of what is compressed, how much all of it may be unpacked.
        part: str. What `members` are of the archive, where problems want others of it: they are
            unpacked to a folder of their own.
    """

    name: str
    url: str
    sha256: str | None = None
    licence: str = ""
    members: tuple = ()
    most_bytes: int = 10**9
    part: str = ""


def fetch(tmp_dir: str | None, raw_file: RawFile) -> str:
    """Returns the path of a raw file in `tmp_dir`; downloads it if it is not there.

    Raises:
        DataError: if it cannot be had, with what to put where; or has another checksum.
    """
    if not tmp_dir:
        raise DataError(
            f"tmp_dir must be a folder that has {raw_file.name} or that it is downloaded to. "
            f"Received: tmp_dir={tmp_dir!r}."
        )
    path = os.path.join(tmp_dir, raw_file.name)
    if not os.path.exists(path):
        if not raw_file.url:
            raise _missing(path, raw_file, "no place to download it from")
        os.makedirs(tmp_dir, exist_ok=True)
        with whole_file.growing(path) as folder:
            if not os.path.exists(path):  # else another process was at it
                with open(os.path.join(folder, "content"), "ab") as file:
                    _Download(path, raw_file, file).run()
    file_error.check_is_file(path)
    _check(path, raw_file)
    return path


class _Download:
    """One file on its way; it is locked by us.

    `tag` beside it holds the server's ETag, by which it knows whether a beginning that lies
    here belongs to the file that lies there. With neither a tag nor a checksum nothing would tell,
    and the file is loaded anew.
    """

    def __init__(self, path, raw_file, file):
        self._path = path
        self._raw_file = raw_file
        self._file = file
        self._tag_path = os.path.join(os.path.dirname(file.name), "tag")
        self._waiting = live_line.ProgressLine(raw_file.name)

    def run(self):
        waits = list(_WAITS)
        with self._waiting:
            while True:
                before = self._file.tell()
                self._waiting.say(f"asking {self._raw_file.url}")
                try:
                    self._request()
                    break
                except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                    if not _may_pass(error):
                        raise self._give_up(error) from error
                    if self._file.tell() >= before + _LEAST:
                        waits = list(_WAITS)
                    if not waits:
                        raise self._give_up(error) from error
                    self._waiting.say(f"{_reason(error)}; asking again in {waits[0]} s")
                    time.sleep(waits.pop(0))
        self._file.flush()
        try:
            _check(self._file.name, self._raw_file)
        except DataError:
            self._restart()
            raise
        whole_file.put([(self._file.name, self._path)])
        self._remove_tag()
        print(f"{self._raw_file.name}: {live_line.size(os.path.getsize(self._path))} downloaded")

    def _request(self):
        """Loads what is missing.

        Raises:
            OSError and others of the network: if not everything came.
        """
        if self._tag is None and self._raw_file.sha256 is None:
            self._restart()
        offset = self._file.tell()
        headers = {"User-Agent": "ut_keras", "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
            if self._tag:
                headers["If-Range"] = self._tag
        request = urllib.request.Request(self._raw_file.url, headers=headers)
        try:
            response = deadline.call(
                _TIMEOUT, functools.partial(urllib.request.urlopen, request, timeout=_TIMEOUT)
            )
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 416:
                raise
            # Nothing comes after what is here: it is whole, or not this file's beginning.
            if _total(error.headers) != offset:
                self._restart()
                raise ConnectionError("the file has changed") from error
            return
        self._waiting.close()
        with response:
            self._receive(response, offset)

    def _receive(self, response, offset):
        if response.status == 206:
            if not response.headers.get("Content-Range", "").startswith(f"bytes {offset}-"):
                self._restart()
                raise ConnectionError("another part than asked for")
            total = _total(response.headers)
        else:
            self._restart()
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            self._keep_tag(response.headers.get("ETag"))
        done = self._file.tell()
        title = self._raw_file.name
        line = live_line.ProgressLine(title, total, live_line.size, done=done)
        before, due = done, time.monotonic() + _TIMEOUT
        with line:
            while block := response.read1(_BLOCK):  # what has come, and not all of so many
                done += self._file.write(block)
                line.add(len(block))
                if time.monotonic() > due:
                    if done < before + _LEAST:
                        raise TimeoutError(f"{done - before} bytes came in {_TIMEOUT} s")
                    before, due = done, time.monotonic() + _TIMEOUT
        self._file.flush()
        if total is not None and self._file.tell() != total:
            if self._file.tell() > total:
                self._restart()
            raise ConnectionError(f"{self._file.tell()} of {total} bytes came")

    @property
    def _tag(self):
        try:
            with open(self._tag_path, encoding="latin-1") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _keep_tag(self, tag):
        # A weak tag (W/) does not promise the same bytes.
        if tag and not tag.startswith("W/"):
            with open(self._tag_path, "w", encoding="latin-1") as file:
                file.write(tag)

    def _remove_tag(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._tag_path)

    def _restart(self):
        self._file.truncate(0)
        self._file.seek(0)
        self._remove_tag()

    def _give_up(self, error):
        if not os.path.getsize(self._file.name):
            os.remove(self._file.name)
        return _missing(self._path, self._raw_file, _reason(error))


def _reason(error):
    """What went wrong, in a few words."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    return getattr(error, "reason", None) or error


def _may_pass(error):
    """Whether a new try makes sense; not after "no such page", nor when a disk is full."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in (408, 429) or error.code >= 500
    network = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)
    return isinstance(error, network)


def _total(headers):
    """The whole file's size by Content-Range ("bytes 5-9/10", "bytes */10"), or None."""
    match = re.search(r"/(\d+)$", headers.get("Content-Range", ""))
    return int(match[1]) if match else None


def _missing(path, raw_file, reason):
    folder, name = os.path.split(path)
    place = f", from {raw_file.url}" if raw_file.url else ""
    return DataError(
        f"{name} must be in tmp_dir={folder!r}: put it there{place}. "
        f"Received: no such file, and {reason}."
    )


def _check(path, raw_file):
    if raw_file.sha256 is None:
        return
    status = os.stat(path)
    found = _sha256(path, status.st_size, status.st_mtime_ns)
    if found != raw_file.sha256.lower():
        raise DataError(
            f"{raw_file.name} must have the SHA-256 {raw_file.sha256}; remove it to fetch it "
            f"again, from {raw_file.url or 'its owner'}. Received: {found} in {path}."
        )


@functools.lru_cache
def _sha256(path, size, time_changed):
    """The checksum of a file, read again only after it has changed."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
