import errno
import fcntl
import multiprocessing
import os
import shutil

import pytest

from ut_keras.errors import UserError
from ut_keras.files import path_lock
from ut_keras.files.path_lock import LockedError


def _held(path):
    return path_lock.held(str(path), "--x must be written", "x")


def test_held_excludes_others_and_removes_its_file(tmp_path):
    path, lock = tmp_path / "x", tmp_path / ".x.ut_keras-lock"
    expected = rf"by one command at a time\. Received: 'x', which process {os.getpid()} is "
    for _ in range(2):
        with _held(path), pytest.raises(LockedError, match=expected), _held(path):
            pass
        assert not lock.exists()


def _hold(path, connection):
    with _held(path):
        connection.send("held")
        connection.recv()


def test_lock_of_killed_process_is_released(tmp_path):
    path, lock = tmp_path / "x", tmp_path / ".x.ut_keras-lock"
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_hold, args=(path, theirs))
    process.start()
    assert ours.recv() == "held"
    with pytest.raises(LockedError, match=f"process {process.pid} "), _held(path):
        pass
    path_lock.remove_leftover(str(path))
    assert lock.exists()
    process.kill()
    process.join()
    assert lock.exists()
    with _held(path):
        assert lock.read_bytes() == b""
    assert not lock.exists()


def test_remove_leftover_removes_file_of_killed_process(tmp_path):
    path, lock = tmp_path / "x", tmp_path / ".x.ut_keras-lock"
    path_lock.try_lock(str(lock)).close()
    assert lock.exists()
    path_lock.remove_leftover(str(path))
    assert not lock.exists()
    lock.write_text("somebody's")
    path_lock.remove_leftover(str(path))
    assert lock.read_text() == "somebody's"


def test_held_keeps_file_in_recreated_folder(tmp_path):
    path, lock = tmp_path / "folder" / "x", tmp_path / "folder" / ".x.ut_keras-lock"
    path.parent.mkdir()
    with _held(path):
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        other = path_lock.try_lock(str(lock))
    assert lock.exists()
    with other, pytest.raises(LockedError, match=f"process {os.getpid()} "), _held(path):
        pass


def test_try_lock_ignores_file_removed_while_opening(tmp_path, monkeypatch):
    path, lock = tmp_path / "x", tmp_path / ".x.ut_keras-lock"
    flock = path_lock.fcntl.flock
    calls = []

    def slow(file, operation):
        if not calls:
            lock.unlink()  # the process that held the lock removes the lock file
        calls.append(operation)
        return flock(file, operation)

    monkeypatch.setattr(path_lock.fcntl, "flock", slow)
    with _held(path):
        assert len(calls) == 2 and lock.exists()


def test_lock_is_an_empty_file(tmp_path):
    """A program that reads all files of a folder finds no data in the lock file."""
    with _held(tmp_path / "x"):
        assert [path.name for path in tmp_path.iterdir()] == [".x.ut_keras-lock"]
        assert (tmp_path / ".x.ut_keras-lock").read_bytes() == b""


_EARLIER = b"a lock of ut_keras, held as long as this process lives:\n"


@pytest.mark.parametrize("content", [_EARLIER, _EARLIER + b"4711\n"])
def test_lock_of_earlier_version_is_recognized(tmp_path, content):
    path, lock = tmp_path / "x", tmp_path / ".x.ut_keras-lock"
    lock.write_bytes(content)
    with open(lock, "r+b") as held:  # a running process of an earlier version holds the lock
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LockedError), _held(path):
            pass
        path_lock.remove_leftover(str(path))
        assert lock.read_bytes() == content
    with _held(path):  # the process of the earlier version has ended
        assert lock.read_bytes() == b""
    lock.write_bytes(content)
    path_lock.remove_leftover(str(path))
    assert not lock.exists()


def test_error_without_process_number_names_another_process(tmp_path, monkeypatch):
    path, held = tmp_path / "x", tmp_path / "held"
    for content in (None, "1: FLOCK  ADVISORY  WRITE 7120 00:00:1 0 EOF\n", "1: \n", "\0"):
        if content is not None:
            held.write_text(content)
        monkeypatch.setattr(path_lock, "_HELD", str(held))
        expected = "'x', which another process is "
        with _held(path), pytest.raises(LockedError, match=expected), _held(path):
            pass


@pytest.mark.parametrize("kind", ["mine", "link", "pipe", "folder"])
def test_held_keeps_file_of_the_user(tmp_path, kind):
    lock, target = tmp_path / ".x.ut_keras-lock", tmp_path / "target"
    target.write_text("mine")
    if kind == "link":
        lock.symlink_to(target)
    elif kind == "pipe":
        os.mkfifo(lock)
    elif kind == "folder":
        lock.mkdir()
    else:
        lock.write_text(kind)
    before = lock.lstat()
    with pytest.raises(UserError, match=f"^{lock} must be free"), _held(tmp_path / "x"):
        pass
    with pytest.raises(UserError, match="must be free"):
        path_lock.try_lock(str(lock), make=False)
    assert lock.lstat() == before and target.read_text() == "mine"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_held_keeps_error_of_folder_that_became_read_only(tmp_path, monkeypatch, number):
    """The caller gets the error about the unsaved checkpoint, not an error about the lock."""

    def remove(path):
        raise OSError(number, os.strerror(number), path)

    path = str(tmp_path / "run")
    monkeypatch.setattr(os, "remove", remove)
    with pytest.raises(UserError, match="not saved"), path_lock.held(path, "must be written"):
        raise UserError("not saved")
    with path_lock.held(path, "must be written"):  # the remaining lock file locks nothing
        pass
