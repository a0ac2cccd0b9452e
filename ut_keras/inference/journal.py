"""What is finished of a long work, kept in a file, so that it can go on after an interruption.

    {"ut_keras": "journal", "job": "4f1c…"}
    {"batch": 0, "results": [["ein Hund"], ["zwei Hunde"]]}
    {"batch": 1, "results": [["Schnee"]]}

A line is a batch. A line that is torn ends what is gone on with.
"""

import json
import os
from collections.abc import Sequence
from typing import IO, Any

from ut_keras.files import file_error, json_file, path_lock, whole_file

_SIGNATURE = b'{"ut_keras": "journal", '  # which says whose it is


class Journal:
    """The finished batches of a job, in a file that one process writes at a time.

    Args:
        path: str, of the journal.
        job: str that stands for everything that the results depend on.
    Raises:
        OSError: if the file cannot be written.
        UserError: if there is another file of its name.
    """

    def __init__(self, path: str, job: str) -> None:
        self.path = path
        self.finished: dict[int, Any] = {}  # results by the number of the batch, as they were found
        self.is_of_another_job = False
        whole = self._read(job)
        if whole:
            whole_file.break_hard_links(path)
            os.truncate(path, whole)
        else:
            with whole_file.writing(path, binary=True) as file:
                file.write(_line({"ut_keras": "journal", "job": job}))

    def add(self, batch: int, results: Sequence[Any]) -> None:
        """Notes the results of a batch, a list that JSON can hold."""
        with file_error.named(self.path), open(self.path, "ab") as file:
            file.write(_line({"batch": batch, "results": results}))

    def _read(self, job):
        """Reads what is there; returns the number of bytes that are whole."""
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
    """Opens a journal, if it is one; raises as `path_lock.open_own`."""
    return path_lock.open_own(path, _SIGNATURE)


def _line(record):
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"
