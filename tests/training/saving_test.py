import os
import shutil

import pytest

from ut_keras.training import saving


def test_another_folder_at_the_path_is_another(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    status = os.stat(path)
    saving.check_folder(str(path), status, 3)
    moved = path.rename(tmp_path / "moved")
    with pytest.raises(saving.FolderLost, match="up to step 3 are lost"):
        saving.check_folder(str(path), status, 3)
    path.mkdir()
    with pytest.raises(saving.FolderLost):
        saving.check_folder(str(path), status, 3)
    shutil.rmtree(path)
    moved.rename(path)
    saving.check_folder(str(path), status, 3)
