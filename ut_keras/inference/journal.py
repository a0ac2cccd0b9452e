"""What is finished of a long work, kept in a file, so that it can go on after an interruption.

    {"ut_keras": "journal", "job": "4f1c…"}
    {"batch": 0, "results": [["ein Hund"], ["zwei Hunde"]], "sha256": "9b0a…"}
    {"batch": 1, "results": [["Schnee"]], "sha256": "c17e…"}

A line is a batch. Its checksum is of the job, too: what is torn, changed or of another job ends
what is gone on with.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from typing import IO, Any

from ut_keras.files import file_error, json_file, path_lock, whole_file

_BEGINS = b'{"ut_keras": "journal", '  # which says whose it is


class Journal:
    """The finished batches of a job.

    Args:
        path: str, of the journal.
        job: str that stands for everything that the results depend on.
    Raises:
        OSError: if the file cannot be written.
        UserError: if there is another file of its name.
    """

    def __init__(self, path: str, job: str) -> None:
        self.path = path
        self.finished: dict[int, Any] = {}  # results by the number of the batch
        self.is_of_another_job = False
        self.lines_left_out = 0  # that are not as they were written
        self._job = job
        whole = self._read()
        if whole:
            os.truncate(path, whole)
        else:
            with whole_file.writing(path, binary=True) as file:
                file.write(_line({"ut_keras": "journal", "job": job}))

    def add(self, batch: int, results: Sequence[Any]) -> None:
        """Notes the results of a batch, a list that JSON can hold."""
        self.finished[batch] = results
        record = {"batch": batch, "results": results}
        self._write({**record, "sha256": self._checksum(record)})

    def remove(self) -> None:
        """Ends the journal: the results are where they belong."""
        os.remove(self.path)

    def _read(self):
        """Reads what is there; returns the number of bytes that are whole."""
        try:
            with open_own(self.path) as file:
                lines = [_BEGINS + file.readline(), *file]
        except FileNotFoundError:
            return 0
        whole = 0
        for number, line in enumerate(lines):
            record = _record(line)
            if number == 0 and (record or {}).get("job") != self._job:
                self.is_of_another_job = True
                return 0
            if number and not self._is_ours(record):
                self.lines_left_out = len(lines) - number
                break
            if number:
                self.finished[record["batch"]] = record["results"]
            whole += len(line)
        return whole

    def _is_ours(self, record):
        if not record or not isinstance(record.get("batch"), int):
            return False
        return record.pop("sha256", None) == self._checksum(record)

    def _checksum(self, record):
        content = json.dumps([self._job, record["batch"], record.get("results")])
        return hashlib.sha256(content.encode()).hexdigest()

    def _write(self, record):
        with file_error.named(self.path), open(self.path, "ab") as file:
            file.write(_line(record))


def open_own(path: str) -> IO[bytes]:
    """Opens a journal, behind what it begins with; raises as `path_lock.open_own`."""
    file = path_lock.open_own(path)
    if file.read(len(_BEGINS)) != _BEGINS:
        file.close()
        raise path_lock.foreign(path)
    return file


def _line(record):
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _record(line):
    """The dict that a line holds; None if it is torn."""
    if not line.endswith(b"\n"):
        return None
    return json_file.parse_line(line)
