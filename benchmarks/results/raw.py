"""Finds raw files in a folder (--raw), and links them into the folder that the trainer reads."""

import glob
import gzip
import os

from ut_keras.errors import DataError
from ut_keras.files import whole_file


def place(table, raw, tmp_dir):
    """Link a table's raw files into tmp_dir, and write the files that are made from them.

    If a file is not found, the problem downloads the file or raises an error that names the file.
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
    """Return the sorted paths in a folder tree that match a pattern."""
    return sorted(glob.glob(os.path.join(glob.escape(raw), "**", pattern), recursive=True))


def read_lines(raw, name):
    """Return the lines of a file in the folder tree, or [] if the file is missing.

    The file may be gzipped.
    """
    for path in find(raw, name):
        opens = gzip.open if path.endswith(".gz") else open
        with opens(path, "rt", encoding="utf-8") as file:
            return file.readlines()
    return []


def write_lines(tmp_dir, name, lines):
    """Write a raw file atomically.

    Raises:
        DataError: if a file with this name exists and its content differs.
    """
    path, text = os.path.join(tmp_dir, name), "".join(lines)
    if not os.path.lexists(path):
        with whole_file.writing(path) as file:
            file.write(text)
        return
    with open(path, encoding="utf-8", newline="") as file:
        if file.read() != text:
            raise DataError(f"--tmp_dir must not contain another {name}. Received: {path}.")
