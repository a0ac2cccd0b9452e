"""A file of the finished batches of a long job.

An interrupted job resumes from this file.

    {"ut_keras": "journal", "job": "4f1c…"}
    {"batch": 0, "results": [["ein Hund"], ["zwei Hunde"]]}
    {"batch": 1, "results": [["Schnee"]]}

Each line after the first holds the results of one batch. The first incomplete line and all lines
after it are ignored.
"""

import json
import os
from collections.abc import Sequence
from typing import IO, Any

from ut_keras.files import file_error, json_file, path_lock, whole_file

_SIGNATURE = b'{"ut_keras": "journal", '  # the first bytes of every journal


class Journal:
    """The finished batches of a job. Only one process at a time may write the file.

    Args:
        path: str, the path of the journal.
        job: str, a digest of all data and settings that affect the results.

    Raises:
        OSError: if the file cannot be written.
        UserError: if the path is an existing file that is not a journal.
    """

    def __init__(self, path: str, job: str) -> None:
        self.path = path
        self.finished: dict[int, Any] = {}  # index of the batch -> results
        self.has_other_job = False
        complete_bytes = self._read(job)
        if complete_bytes:
            whole_file.break_hard_links(path)
            os.truncate(path, complete_bytes)
        else:
            with whole_file.writing(path, binary=True) as file:
                file.write(_line({"ut_keras": "journal", "job": job}))

    def add(self, batch: int, results: Sequence[Any]) -> None:
        """Append the results of a batch. `results` must be a list that JSON can represent."""
        with file_error.named(self.path), open(self.path, "ab") as file:
            file.write(_line({"batch": batch, "results": results}))

    def _read(self, job):
        """Read the finished batches; return the number of bytes of the complete lines."""
        try:
            with open_own(self.path) as file:
                first, *lines = [_SIGNATURE + file.readline(), *file]
        except FileNotFoundError:
            return 0
        if json_file.parse_line(first).get("job") != job:
            self.has_other_job = True
            return 0
        complete_bytes = len(first)
        for line in lines:
            record = json_file.parse_line(line)
            if not isinstance(record.get("batch"), int):
                break
            self.finished[record["batch"]] = record["results"]
            complete_bytes += len(line)
        return complete_bytes


def open_own(path: str) -> IO[bytes]:
    """Open a journal; raise the errors of `path_lock.open_own` for any other file."""
    return path_lock.open_own(path, _SIGNATURE)


def _line(record):
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"
