import os
import shutil

from ut_keras.training.saving import OutputFolder


def test_another_folder_at_the_path_is_another(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    folder = OutputFolder(str(path))
    assert not folder.is_lost
    moved = path.rename(tmp_path / "moved")
    assert folder.is_lost and not folder.is_of_others
    path.mkdir()
    assert folder.is_lost
    shutil.rmtree(path)
    moved.rename(path)
    assert not folder.is_lost


def test_a_checkpoint_that_was_being_written_is_of_nobody_else(tmp_path):
    folder = OutputFolder(str(tmp_path))
    for name in ("model.ckpt-5.index", ".model.ckpt-10.ut_keras-8f3a0c1d", "checkpoint"):
        (tmp_path / name).touch()
        assert not folder.is_of_others
    (tmp_path / "run.json").touch()
    assert folder.is_of_others
    os.remove(tmp_path / "run.json")
    assert not folder.is_of_others
