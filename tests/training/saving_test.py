import shutil

from ut_keras.training.saving import OutputFolder


def test_another_folder_at_the_path_is_another(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    folder = OutputFolder(str(path))
    assert not folder.is_lost
    moved = path.rename(tmp_path / "moved")
    assert folder.is_lost
    path.mkdir()
    assert folder.is_lost
    shutil.rmtree(path)
    moved.rename(path)
    assert not folder.is_lost
