"""What is finished of a long work, kept in a file, so that it can go on after an interruption.

    {"job": "4f1c…"}
    {"batch": 0, "results": [["ein Hund"], ["zwei Hunde"]], "sha256": "9b0a…"}
    {"batch": 1, "results": [["Schnee"]], "sha256": "c17e…"}

A line is a batch. Its checksum is of the job, too: what is torn, changed or of another job ends
what is gone on with.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

from ut_keras import file_error, json_file


class Journal:
    """The finished batches of a job.

    Args:
        path: str, of the journal.
        job: str that stands for everything that the results depend on.
    Raises:
        OSError: if the file cannot be written.
    """

    def __init__(self, path: str, job: str) -> None:
        self.path = path
        self.finished: dict[int, Any] = {}  # results by the number of the batch
        self.is_of_another_job = False
        self.lines_left_out = 0  # that are not as they were written
        self._job = job
        whole = self._read()
        with open(path, "ab") as file:
            file.truncate(whole)
        if not whole:
            self._write({"job": job})

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
        if not os.path.exists(self.path):
            return 0
        with open(self.path, "rb") as file:
            lines = file.readlines()
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
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


def _record(line):
    """The dict that a line holds; None if it is torn."""
    if not line.endswith(b"\n"):
        return None
    return json_file.parse_line(line)
