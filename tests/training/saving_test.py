import os
import shutil

import pytest

from ut_keras.training import saving


def test_check_folder_detects_another_folder_at_the_path(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    status = os.stat(path)
    saving.check_folder(str(path), status, 3)
    moved = path.rename(tmp_path / "moved")
    with pytest.raises(
        saving.FolderLost, match=f"renamed to {moved}, .*--output_dir={moved}"
    ) as error:
        saving.check_folder(str(path), status, 3)
    assert "lost" not in str(error.value)
    path.mkdir()
    with pytest.raises(saving.FolderLost, match=f"renamed to {moved}"):
        saving.check_folder(str(path), status, 3)
    shutil.rmtree(path)
    moved.rename(path)
    saving.check_folder(str(path), status, 3)
    shutil.rmtree(path)
    with pytest.raises(saving.FolderLost, match=f"Received: {path} .* up to step 3 are lost"):
        saving.check_folder(str(path), status, 3)


def test_check_folder_finds_the_new_name_of_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("run")
    status = os.stat("run")
    os.rename("run", "renamed")
    with pytest.raises(saving.FolderLost, match="run was renamed to renamed, "):
        saving.check_folder("run", status, 3)
    with pytest.raises(saving.FolderLost, match=f"renamed to {tmp_path}/renamed, "):
        saving.check_folder(f"{tmp_path}/run/", status, 3)
    os.mkdir("elsewhere")
    os.rename("renamed", "elsewhere/run")
    with pytest.raises(saving.FolderLost, match="Received: run no longer exists"):
        saving.check_folder("run", status, 3)
