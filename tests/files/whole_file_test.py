import errno
import multiprocessing
import os
import pathlib
import resource
import tempfile
import threading

import pytest

from ut_keras.errors import DataError
from ut_keras.files import file_error, path_lock, whole_file

pytestmark = pytest.mark.usefixtures("real_fsync")


def test_writing_replaces_file_at_end(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(0o600)
    with whole_file.writing(path) as file:
        file.write("new\n")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_bytes() == b"new\n" and path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["x"]


def test_writing_changes_nothing_after_error(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), whole_file.writing(path) as file:
        file.write("\udc80")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["x"]


def test_writing_to_full_disk_names_file(tmp_path):
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


def test_check_writable_names_read_only_folder(tmp_path, monkeypatch):
    def fail(dir):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), f"{dir}/tmphxmu99jh")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    with pytest.raises(OSError) as caught:
        whole_file.check_writable(str(tmp_path))
    assert file_error.one_line(caught.value) == f"{os.strerror(errno.EROFS)}: {tmp_path}"


def test_writing_by_two_processes(tmp_path):
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


def test_move_into_place_syncs_folder_before_rename(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync

    def record_sync(descriptor):
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record_sync)
    path = tmp_path / "served"
    with whole_file.temporary_folder(str(path)) as temporary:
        os.makedirs(f"{temporary}/x/inner")
        for name in ("x/a", "x/inner/b"):
            with open(f"{temporary}/{name}", "w") as file:
                file.write(name)
        assert not path.exists()
        whole_file.move_into_place([(f"{temporary}/x", str(path))])
    assert sorted(synced) == sorted(["a", "b", "x", "inner", tmp_path.name])
    assert synced[-1] == tmp_path.name
    assert os.listdir(tmp_path) == ["served"] and sorted(os.listdir(path)) == ["a", "inner"]


def test_writing_folder_leaves_nothing_after_error(tmp_path):
    path = tmp_path / "above" / "served"
    with pytest.raises(KeyError), whole_file.writing_folder(str(path)) as folder:
        pathlib.Path(folder, "half").write_text("half")
        raise KeyError
    assert os.listdir(path.parent) == []
    with whole_file.writing_folder(f"{path}/") as folder:
        pathlib.Path(folder, "x").write_text("whole")
    assert (os.listdir(path.parent), os.listdir(path)) == (["served"], ["x"])


def test_writing_folder_names_a_parent_that_is_a_file(tmp_path):
    (tmp_path / "notes.txt").touch()
    with (
        pytest.raises(NotADirectoryError, match=str(tmp_path / "notes.txt")),
        whole_file.writing_folder(str(tmp_path / "notes.txt" / "new")),
    ):
        pass


def test_move_into_place_syncs_file_before_rename(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor):
        path = pathlib.Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        done.append("folder" if path.is_dir() else path.read_text())
        fsync(descriptor)

    def record_replace(source, target):
        done.append("named")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    with whole_file.writing(tmp_path / "x") as file:
        file.write("new")
    assert done == ["new", "named", "folder"]
    done.clear()
    (tmp_path / "y").write_text("other")
    monkeypatch.setattr(os, "remove", lambda path: done.append("removed"))
    whole_file.move_into_place([(tmp_path / "y", tmp_path / "z")], obsolete=tmp_path / "x")
    assert done == ["other", "removed", "named", "folder"]


def _die_while_writing(path, connection):
    with (
        whole_file.writing(path) as file,
        whole_file.temporary_folder(f"{os.path.dirname(path)}/7"),
    ):
        file.write("half")
        connection.send("begun")
        connection.recv()


def test_remove_leftovers_removes_only_files_of_ended_processes(tmp_path):
    path = tmp_path / "x"
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_die_while_writing, args=(str(path), theirs))
    process.start()
    theirs.close()
    assert ours.recv() == "begun"
    begun = sorted(os.listdir(tmp_path))
    assert len(begun) == 2
    for _ in range(2):
        whole_file.remove_leftovers(str(tmp_path / "*"))
        assert sorted(os.listdir(tmp_path)) == begun
    process.kill()
    process.join()
    with whole_file.writing(path) as file:
        file.write("whole")
    assert sorted(os.listdir(tmp_path)) == sorted(["x", *(n for n in begun if n[1] == "7")])
    (tmp_path / ".7.ut_keras-00000000").mkdir()  # its process died before the lock
    whole_file.remove_leftovers(str(tmp_path / "*"))
    assert os.listdir(tmp_path) == ["x"]


def test_remove_leftovers_keeps_files_of_other_programs(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    path_lock.try_lock(str(tmp_path / "elsewhere" / "lock")).close()
    (tmp_path / ".x.ut_keras-00000000").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".x.ut_keras-00000001").mkdir()
    (tmp_path / ".x.ut_keras-00000001" / "lock").write_text("mine")
    (tmp_path / ".x.ut_keras-mine").mkdir()
    path_lock.try_lock(str(tmp_path / ".x.ut_keras-mine" / "lock")).close()
    for name in ("x.incomplete.8f3a0c1d", "x.lock", ".x.ut_keras-00000002"):
        (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with whole_file.writing(tmp_path / "x") as file:
        file.write("new")
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "x"])


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_writing_rejects_path_that_is_not_a_file(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(DataError, match="x must be a file"), whole_file.writing(tmp_path / "x"):
        pass
    assert not (tmp_path / "x").is_file()


def test_writing_keeps_broken_link(tmp_path):
    (tmp_path / "x").symlink_to("/nowhere/x")
    with pytest.raises(FileNotFoundError, match="/x'"), whole_file.writing(tmp_path / "x"):
        pass
    assert os.listdir(tmp_path) == ["x"] and os.readlink(tmp_path / "x") == "/nowhere/x"


def test_writing_folder_keeps_mode(tmp_path):
    (tmp_path / "private").mkdir(mode=0o700)
    with whole_file.writing_folder(str(tmp_path / "private")):
        pass
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700
