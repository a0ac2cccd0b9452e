"""Download raw files from their official locations and check them.

    corpus = download.at("https://example.org/corpus.tgz", sha256="9f86d0…")
    path = download.fetch(tmp_dir, corpus)                                      tmp_dir/corpus.tgz

If a file with the right checksum exists in `tmp_dir`, it is used, so users can also put a file
there themselves. A download gets its final name when it is complete. This module does not use the
download manager of tensorflow-datasets, because the manager takes seconds to load and does not keep
T2T's file names. A problem uses tensorflow-datasets only if that package has a builder for the
problem's data.
"""

import functools
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from ut_keras.errors import DataError
from ut_keras.files import file_error, whole_file
from ut_keras.process import live_line

_BLOCK = 1 << 20  # maximum number of bytes that are read at once
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype html|html|head)\b", re.IGNORECASE)
_PAGE_START_BYTES = 1000
_TIMEOUT = 60  # maximum seconds between two received bytes
_RETRY_SECONDS = (1, 4, 15)  # seconds before each retry
# Errors of the network, as opposed to, for example, a full disk.
_NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


class RawFile(NamedTuple):
    """A raw file from which a problem is made."""

    name: str  # the name of the file in tmp_dir
    url: str  # the official location; "" if the file cannot be downloaded
    sha256: str | None = None  # the checksum in hexadecimal; None if it is unknown
    licence: str = ""  # the uses that the licence permits
    members: tuple = ()  # for an archive: patterns (str) for the names of the files to unpack
    most_bytes: int = 10**9  # the maximum unpacked size of a compressed file
    # Problems may unpack different `members` from the same archive. Each such set of members then
    # needs its own name here, and is unpacked to its own folder.
    part: str = ""
    size: int | None = None  # the number of bytes of the file; None if it is unknown
    page: str = ""  # if `url` is empty: the address at which a user finds the file
    may_be_html: bool = False  # whether the file itself may be an HTML page

    @property
    def size_text(self) -> str:
        """The size for messages, such as "113.2 MB"."""
        return live_line.size(self.size) if self.size else "size unknown"


class MissingFileError(DataError):
    """A raw file is missing and cannot be downloaded.

    Attributes:
        reason: str. The reason why the file cannot be downloaded.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def at(url: str, sha256: str | None = None, **fields: Any) -> RawFile:
    """Return the `RawFile` of a URL, with the last part of the URL as its name.

    Args:
        url: str. The official location.
        sha256: str. The checksum in hexadecimal. Optional.
        fields: other fields of `RawFile`.
    """
    return RawFile(url.rpartition("/")[2].partition("?")[0], url, sha256, **fields)


def fetch(tmp_dir: str | None, raw_file: RawFile) -> str:
    """Return the path of a raw file in `tmp_dir`.

    The function downloads the file if it is missing.

    Raises:
        MissingFileError: if the file is missing and cannot be downloaded. The message names the
            file and the folder where the user must put it.
        DataError: if the checksum of the file is wrong, or if the file is an HTML page.
    """
    if not tmp_dir:
        raise DataError(
            f"tmp_dir must be a folder that has {raw_file.name} or can receive the download. "
            f"Received: tmp_dir={tmp_dir!r}."
        )
    path = os.path.join(tmp_dir, raw_file.name)
    if not os.path.lexists(path):  # a broken link may point to a disk that is not mounted
        if not raw_file.url:
            raise _missing(path, raw_file, "it cannot be downloaded")
        os.makedirs(tmp_dir, exist_ok=True)
        _download(path, raw_file)
    if not os.path.exists(path):
        raise _missing(path, raw_file, "the name is a broken link")
    file_error.check_is_file(path)
    _check(path, raw_file)
    return path


def _download(path, raw_file):
    """Download a file, and retry after temporary errors."""
    retry_seconds = list(_RETRY_SECONDS)
    with live_line.ProgressLine(raw_file.name) as waiting:
        while True:
            waiting.show_message(f"requesting {raw_file.url}")
            try:
                with whole_file.writing(path, binary=True) as file:
                    _write_response(raw_file, file)
                    _check(file.name, raw_file)
                break
            except _NETWORK_ERRORS as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                if not retry_seconds or not _is_retryable(error):
                    raise _missing(path, raw_file, _reason(error)) from error
                waiting.show_message(f"{_reason(error)}; trying again in {retry_seconds[0]} s")
                time.sleep(retry_seconds.pop(0))
    print(f"{raw_file.name}: {live_line.size(os.path.getsize(path))} downloaded")


def _write_response(raw_file, file):
    """Write the server's response to a file.

    Raises:
        OSError, http.client.HTTPException: if the response is incomplete or the network fails.
    """
    request = urllib.request.Request(raw_file.url, headers={"User-Agent": "ut_keras"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        with live_line.ProgressLine(raw_file.name, total, live_line.size) as line:
            # `read1` returns the bytes that have arrived, without waiting for a full block.
            while block := response.read1(_BLOCK):
                file.write(block)
                line.add(len(block))
    file.flush()
    if total is not None and file.tell() != total:
        raise ConnectionError(f"received {file.tell()} of {total} bytes")


def _is_retryable(error):
    """Return whether a retry may succeed, which is not the case after "404 Not Found"."""
    code = getattr(error, "code", None)
    return code is None or code in (408, 429) or code >= 500


def _reason(error):
    """Return the reason for an error in a few words."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or error


def _missing(path, raw_file, reason):
    folder, name = os.path.split(path)
    address = raw_file.url or raw_file.page
    origin = f", downloaded from {address}" if address else ""
    return MissingFileError(
        f"{name} must be in tmp_dir={folder!r}. Put it there{origin}. "
        f"Received: no such file; {reason}.",
        f"{reason}",
    )


def _check(path, raw_file):
    if raw_file.sha256 is None:
        _check_is_no_page(path, raw_file)
        return
    status = os.stat(path)
    found = _sha256(path, status.st_size, status.st_mtime_ns)
    if found != raw_file.sha256.lower():
        raise DataError(
            f"{raw_file.name} must have the SHA-256 {raw_file.sha256}. Received: {found}. Remove "
            f"it to fetch it again from {raw_file.url or 'its owner'}."
        )


def _check_is_no_page(path, raw_file):
    """Raise DataError if a server has sent a page instead of the file.

    An example is a login page.
    """
    with file_error.named(path), open(path, "rb") as file:
        start = file.read(_PAGE_START_BYTES)
    if _PAGE.match(start) and not raw_file.may_be_html:
        raise DataError(
            f"{raw_file.name} must be the file from {raw_file.url or 'its owner'}. Received: an "
            "HTML page, such as a login page. If the page is in tmp_dir, remove it."
        )


@functools.lru_cache
def _sha256(path, size, time_changed):
    """Return the checksum of a file. The file is read again only after it has changed."""
    with file_error.named(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
