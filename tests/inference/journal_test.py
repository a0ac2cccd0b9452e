import os

import pytest

from tests.bin import full_disk
from ut_keras.errors import UserError
from ut_keras.inference.journal import Journal


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / ".out.ut_keras-partial")


def test_journal_resumes(path):
    journal = Journal(path, "job")
    journal.add(0, [["eins\u2028"], ["zwei"]])
    journal.add(3, [["drei\n"]])
    again = Journal(path, "job")
    assert again.finished == {0: [["eins\u2028"], ["zwei"]], 3: [["drei\n"]]}
    again.add(1, [[]])
    assert list(Journal(path, "job").finished) == [0, 3, 1]


def test_journal_names_file_on_full_disk(path):
    journal = Journal(path, "job")
    with full_disk.full_disk(100), pytest.raises(OSError) as caught:
        journal.add(0, [["x" * 200]])
    assert caught.value.filename == path


@pytest.mark.parametrize("lost", [1, 5, 30])
def test_journal_ignores_torn_last_line(path, lost):
    journal = Journal(path, "job")
    journal.add(0, ["a"])
    journal.add(1, ["b" * 40])
    with open(path, "r+b") as file:
        torn = file.truncate(file.seek(0, 2) - lost)
    os.link(path, f"{path}.copy")
    again = Journal(path, "job")
    assert again.finished == {0: ["a"]}
    again.add(1, ["c"])
    assert Journal(path, "job").finished == {0: ["a"], 1: ["c"]}
    assert os.path.getsize(f"{path}.copy") == torn  # the other hard link is unchanged


def test_journal_of_another_job_starts_again(path):
    journal = Journal(path, "job")
    journal.add(0, ["a"])
    other = Journal(path, "other")
    assert other.has_other_job and not other.finished
    other.add(0, ["b"])
    assert Journal(path, "other").finished == {0: ["b"]}


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"no journal\n", b'{"job"'])
def test_journal_rejects_other_files(path, content):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(UserError, match=f"{path} must be free"):
        Journal(path, "job")
    with open(path, "rb") as file:
        assert file.read() == content


@pytest.mark.parametrize("line", ["[" * 100_000, "[1]", '{"batch": [], "results": 1}', "\xff"])
def test_journal_ignores_lines_after_invalid_line(path, line):
    journal = Journal(path, "job")
    journal.add(0, ["a"])
    with open(path, "a", encoding="latin-1") as file:
        file.write(f"{line}\n")
    again = Journal(path, "job")
    assert again.finished == {0: ["a"]}
    again.add(1, ["b"])
    assert Journal(path, "job").finished == {0: ["a"], 1: ["b"]}
