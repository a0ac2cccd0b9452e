"""Raw files that lie somewhere under a folder (--raw), put where the trainer looks for them."""

import glob
import gzip
import os

from ut_keras.errors import DataError
from ut_keras.files import whole_file


def place(table, raw, tmp_dir):
    """Links a table's raw files into tmp_dir, and writes those that are made of others.

    What is not found is left to the problem, which downloads it or says what it wants.
    """
    os.makedirs(tmp_dir, exist_ok=True)
    for pattern in table.raw:
        for path in find(raw, pattern):
            link = os.path.join(tmp_dir, os.path.basename(path))
            if not os.path.exists(link):
                os.symlink(os.path.abspath(path), link)
    if table.prepare:
        table.prepare(raw, tmp_dir)


def find(raw, pattern):
    """The paths under a folder that a pattern fits, in order."""
    return sorted(glob.glob(os.path.join(glob.escape(raw), "**", pattern), recursive=True))


def read_lines(raw, name):
    """The lines of a file under the folder, gzipped or not; none if it is not there."""
    for path in find(raw, name):
        opens = gzip.open if path.endswith(".gz") else open
        with opens(path, "rt", encoding="utf-8") as file:
            return file.readlines()
    return []


def write_lines(tmp_dir, name, lines):
    """Writes a raw file, whole or not at all; DataError if there is another of its name."""
    path, text = os.path.join(tmp_dir, name), "".join(lines)
    if not os.path.lexists(path):
        with whole_file.writing(path) as file:
            file.write(text)
        return
    with open(path, encoding="utf-8", newline="") as file:
        if file.read() != text:
            raise DataError(f"--tmp_dir must hold no other {name}. Received: {path}, which is one.")
