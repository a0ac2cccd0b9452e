import pytest

from ut_keras.errors import UsageError
from ut_keras.files.path_lock import LockedError
from ut_keras.training import output_folder


def test_check_creates_no_folder(tmp_path):
    output_folder.check(str(tmp_path / "a" / "run"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["file", "file/run", "link"])
def test_check_rejects_a_path_that_is_not_a_folder(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "missing")
    with pytest.raises(UsageError, match=rf"^--output_dir must be a folder.*/{name}'"):
        output_folder.check(str(tmp_path / name))


def test_check_names_the_folder_if_its_parent_is_read_only(tmp_path, monkeypatch):
    def temporary_file(dir):
        raise PermissionError(13, "Permission denied", f"{dir}/tmp1")

    monkeypatch.setattr("tempfile.TemporaryFile", temporary_file)
    with pytest.raises(OSError, match=f"Permission denied: '{tmp_path}/a/run'"):
        output_folder.check(str(tmp_path / "a" / "run"))


@pytest.mark.parametrize("name", ["exp[1]", "a\\b/run"])
def test_check_rejects_names_that_are_patterns(tmp_path, name):
    with pytest.raises(UsageError, match=r"^--output_dir .*Received: "):
        output_folder.check(str(tmp_path / name))
    assert not list(tmp_path.iterdir())
    output_folder.check(str(tmp_path / "what? 3*[4"))


@pytest.mark.parametrize("there", ["checkpoint", "model.ckpt-7.index"])
def test_check_rejects_results_without_checkpoint(tmp_path, there):
    (tmp_path / "metrics.jsonl").touch()
    output_folder.check(str(tmp_path))  # metrics.jsonl is empty, so no results can be lost.
    (tmp_path / "metrics.jsonl").write_text('{"step": 5}\n')
    with pytest.raises(UsageError, match=r"^--output_dir .*metrics\.jsonl.*no checkpoint"):
        output_folder.check(str(tmp_path))
    (tmp_path / there).touch()
    output_folder.check(str(tmp_path))


def test_lock_excludes_other_processes(tmp_path):
    first, second = output_folder.lock(str(tmp_path)), output_folder.lock(str(tmp_path))
    message = "^--output_dir must be written by one command at a time"
    with first, pytest.raises(LockedError, match=message), second:
        pass
    assert list(tmp_path.iterdir()) == []


def test_lock_removes_new_empty_folders(tmp_path):
    (tmp_path / "old").mkdir()
    for name in ("empty", "run", "new/empty", "old/new"):
        with output_folder.lock(str(tmp_path / name)):
            if name == "run":
                (tmp_path / name / "run.json").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "run"]


@pytest.mark.parametrize(
    "name", ["features.json", "run.json", "best/hparams.json", "model.ckpt-3.data-00000-of-00001"]
)
def test_check_rejects_foreign_records(tmp_path, name):
    (tmp_path / "hparams.json").touch()
    output_folder.check(str(tmp_path), "hparams.json")
    (tmp_path / "best").mkdir()
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match=rf"^--output_dir .*Received: '.*{name}'"):
        output_folder.check(str(tmp_path), "hparams.json")


@pytest.mark.parametrize(
    ("there", "named"),
    [
        ("best/checkpoint", "best"),
        ("best/model.ckpt-3.index", "best"),
        ("model.safetensors", "model.safetensors"),
    ],
)
def test_check_rejects_weights_without_checkpoint(tmp_path, there, named):
    (tmp_path / "best").mkdir()
    (tmp_path / there).touch()
    with pytest.raises(UsageError, match=rf"or no weights. Received: '.*/{named}'"):
        output_folder.check(str(tmp_path))
    (tmp_path / "checkpoint").touch()  # now the folder has a run with a checkpoint
    output_folder.check(str(tmp_path))
