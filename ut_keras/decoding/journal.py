"""What is finished of a long work, kept in a file, so that it can go on after an interruption.

    {"job": "4f1c…"}
    {"batch": 0, "results": [["ein Hund"], ["zwei Hunde"]]}
    {"batch": 1, "results": [["Schnee"]]}

A line is a batch. A last line that is torn is cut off; a file of another job is not gone on with.
"""

import json
import os

from ut_keras import file_error, json_file


class Journal:
    """The finished batches of a job.

    Args:
        path: str, of the journal.
        job: str that stands for everything that the results depend on.
    Raises:
        OSError: if the file cannot be written.
    """

    def __init__(self, path, job):
        self.path = path
        self.finished = {}  # results by the number of the batch
        self.is_of_another_job = False
        whole = self._read(job)
        with open(path, "ab") as file:
            file.truncate(whole)
        if not whole:
            self._write({"job": job})

    def add(self, batch, results):
        """Notes the results of a batch, a list that JSON can hold."""
        self.finished[batch] = results
        self._write({"batch": batch, "results": results})

    def remove(self):
        """Ends the journal: the results are where they belong."""
        os.remove(self.path)

    def _read(self, job):
        """Reads what is there; returns the number of bytes that are whole."""
        if not os.path.exists(self.path):
            return 0
        whole = 0
        with open(self.path, "rb") as file:
            for line in file:
                record = _record(line)
                if record is None:
                    break
                if not whole and record.get("job") != job:
                    self.is_of_another_job = True
                    return 0
                if whole:
                    if not _is_result(record):
                        break
                    self.finished[record["batch"]] = record["results"]
                whole += len(line)
        return whole

    def _write(self, record):
        with file_error.named(self.path), open(self.path, "ab") as file:
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


def _is_result(record):
    batch, results = record.get("batch"), record.get("results")
    return isinstance(batch, int) and isinstance(results, list)


def _record(line):
    """The dict that a line holds; None if it is torn."""
    if not line.endswith(b"\n"):
        return None
    return json_file.parse_line(line)
