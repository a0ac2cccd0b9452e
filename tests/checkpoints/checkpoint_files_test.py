import os

import pytest
import tensorflow as tf

from tests.bin import full_disk
from ut_keras.checkpoints import checkpoint_files
from ut_keras.files import path_lock

pytestmark = pytest.mark.usefixtures("real_fsync")


def _save(directory, *steps, keep=0, value=None):
    for step in steps:
        variable = tf.Variable(float(step) if value is None else value)
        made = tf.train.Checkpoint(model={"w": variable})
        checkpoint_files.save(made, str(directory), step, keep)


def _value(path):
    return float(tf.train.load_checkpoint(path).get_tensor("model/w/.ATTRIBUTES/VARIABLE_VALUE"))


def _steps(paths):
    return [checkpoint_files.step_of(path) for path in paths]


def test_save_writes_tensorflows_format(tmp_path):
    _save(tmp_path, 5, 10)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), 3)
    assert _steps(manager.checkpoints) == [5, 10]
    assert manager.latest_checkpoint == checkpoint_files.newest(str(tmp_path))
    assert _value(manager.latest_checkpoint) == 10
    assert full_disk.all_files(tmp_path) == sorted(
        ["checkpoint"]
        + [f"model.ckpt-{n}.{end}" for n in (5, 10) for end in ("index", "data-00000-of-00001")]
    )


@pytest.mark.parametrize("end", ["", "/", "/."])
def test_save_removes_the_oldest(tmp_path, end):
    _save(f"{tmp_path}{end}", 5, 10, 15, 20, keep=2)
    assert _steps(checkpoint_files.newest_first(str(tmp_path))) == [20, 15]
    assert len(full_disk.all_files(tmp_path)) == 5
    _save(tmp_path, 20, keep=1, value=7.0)  # this overwrites the checkpoint of step 20
    assert [_value(path) for path in checkpoint_files.newest_first(str(tmp_path))] == [7]


def test_record_supports_non_ascii_names(tmp_path):
    _save(tmp_path, 5)
    for ending in ("index", "data-00000-of-00001"):
        os.rename(tmp_path / f"model.ckpt-5.{ending}", tmp_path / f'é"x-5.{ending}')
    checkpoint_files.record(str(tmp_path), [str(tmp_path / 'é"x-5')])
    assert _value(checkpoint_files.newest(str(tmp_path))) == 5


@pytest.mark.parametrize(
    "lost, left",
    [
        ("", [20, 15, 10, 5]),
        # The checkpoint that the file `checkpoint` lists comes first.
        ("named only 10", [10, 20, 15, 5]),
        ("checkpoint", [20, 15, 10, 5]),
        ("model.ckpt-20.index", [20, 15, 10, 5]),
        ("all", []),
    ],
)
def test_newest_first_lists_checkpoints(tmp_path, lost, left):
    _save(tmp_path, 5, 10, 15, 20)
    directory = str(tmp_path)
    if lost == "named only 10":
        checkpoint_files.record(directory, [os.path.join(directory, "model.ckpt-10")])
    for path in tmp_path.iterdir():
        if lost in (path.name, "all"):
            path.unlink()
    assert _steps(checkpoint_files.newest_first(directory)) == left
    assert checkpoint_files.exists(directory) is bool(left)


def test_save_lists_older_checkpoints_after_the_file_was_lost(tmp_path):
    _save(tmp_path, 5, 10, 20)
    (tmp_path / "checkpoint").unlink()
    _save(tmp_path, 15, keep=2)
    assert _steps(checkpoint_files._listed_paths(str(tmp_path))) == [10, 15]
    assert not (tmp_path / "model.ckpt-5.index").exists()
    assert (tmp_path / "model.ckpt-20.index").exists()


def test_newest_is_the_one_that_the_file_names(tmp_path):
    _save(tmp_path, 5, 10, 15)
    named = tmp_path / "checkpoint"
    lines = named.read_text().splitlines()
    named.write_text("\n".join(['model_checkpoint_path: "model.ckpt-10"', *lines[1:]]))
    assert _steps(checkpoint_files._listed_paths(str(tmp_path))) == [5, 15, 10]


def test_note_names_checkpoints_of_later_steps(tmp_path):
    _save(tmp_path, 5, 10, 15)
    assert checkpoint_files.note_on_later_steps(str(tmp_path), 15) is None
    note = checkpoint_files.note_on_later_steps(str(tmp_path), 5)
    assert note.startswith("note: model.ckpt-10, model.ckpt-15 will be overwritten")


def test_save_syncs_files_before_listing_them(tmp_path, monkeypatch):
    """`save` syncs new files and their folder once before the file `checkpoint` lists the files."""
    _save(tmp_path, 5)
    done = []

    def path_of(descriptor):
        return shown(os.readlink(f"/proc/self/fd/{descriptor}"))

    def shown(path):
        folder, name = os.path.split(path)
        return os.path.basename(folder)[1:].split(".ut_keras-")[0] if name == "whole" else name

    def recorded(name, plain, shown):
        def function(*args):
            done.append((name, *(shown(arg) for arg in args)))
            return plain(*args)

        monkeypatch.setattr(os, name, function)

    recorded("fsync", os.fsync, path_of)
    recorded("replace", os.replace, shown)
    recorded("remove", os.remove, shown)
    _save(tmp_path, 10, keep=1)
    data, index = "model.ckpt-10.data-00000-of-00001", "model.ckpt-10.index"
    written = [
        ("fsync", data),
        ("fsync", index),
        ("replace", data, data),
        ("replace", index, index),
        ("fsync", tmp_path.name),
    ]
    named = [
        ("fsync", "checkpoint"),
        ("replace", "checkpoint", "checkpoint"),
        ("fsync", tmp_path.name),
    ]
    removed = [("remove", f"model.ckpt-5.{end}") for end in ("index", "data-00000-of-00001")]
    relevant = [each for each in done if each[0] != "remove" or each in removed]
    assert relevant == [*written, *named, *removed, *named]


def test_full_disk_keeps_earlier_checkpoints(tmp_path):
    _save(tmp_path, 5)
    before = full_disk.all_files(tmp_path)
    for size in (0, 100):
        with full_disk.full_disk(size), pytest.raises(OSError) as caught:
            _save(tmp_path, 10)
        assert caught.value.filename == str(tmp_path / "model.ckpt-10")
        assert full_disk.all_files(tmp_path) == before
    assert _value(checkpoint_files.newest(str(tmp_path))) == 5


def test_remove_incomplete_removes_only_temporary_files(tmp_path):
    _save(tmp_path, 0)
    for name in (
        *("metrics.jsonl", "model.ckpt-8.index", "averaged.ckpt-0.data-00000-of-00001"),
        *("model.ckpt-9.data-00000-of-00001", "checkpoint.tmp0a1b", "model.ckpt-9_temp"),
    ):
        (tmp_path / name).touch()
    (tmp_path / ".model.ckpt-6.ut_keras-8f3a0c1d").mkdir()
    (tmp_path / ".model.ckpt-6.ut_keras-8f3a0c1d" / "lock").write_text("mine")
    kept = sorted(tmp_path.rglob("*"))
    for name in (".model.ckpt-7.ut_keras-8f3a0c1d", ".checkpoint.ut_keras-0a1b2c3d"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.ckpt-7.index").touch()
        path_lock.try_lock(str(tmp_path / name / "lock")).close()
    checkpoint_files.remove_incomplete(str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == kept


def test_save_keeps_checkpoints_in_other_folders(tmp_path):
    """The file `checkpoint` of a copied run may list checkpoints of the original run."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    _save(tmp_path / "old", 5, 10)
    before = full_disk.all_files(tmp_path / "old")
    paths = [str(tmp_path / "old" / f"model.ckpt-{step}") for step in (5, 10)]
    checkpoint_files.record(str(tmp_path / "new"), paths)
    _save(tmp_path / "new", 15, keep=1)
    assert full_disk.all_files(tmp_path / "old") == before
    assert _steps(checkpoint_files.newest_first(str(tmp_path / "new"))) == [15]
