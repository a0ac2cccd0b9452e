import os
import resource
import threading

import pytest

from ut_keras import whole_file


def test_is_there_at_the_end(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")
    with whole_file.writing(path) as file:
        file.write("new\n")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_bytes() == b"new\n"
    assert os.listdir(tmp_path) == ["x"]


def test_what_fails_changes_nothing(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), whole_file.writing(path) as file:
        file.write("\udc80")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["x"]


def test_a_full_disk_is_told_with_the_file(tmp_path):
    path = tmp_path / "x"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError) as caught, whole_file.writing(path) as file:
            file.write("x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == []


def test_two_at_a_time(tmp_path):
    path = tmp_path / "x"
    both = threading.Barrier(2)

    def write(text):
        with whole_file.writing(path) as file:
            file.write(text)
            both.wait(10)

    other = threading.Thread(target=write, args=("a",))
    other.start()
    write("b")
    other.join()
    assert path.read_text() in ("a", "b") and os.listdir(tmp_path) == ["x"]
