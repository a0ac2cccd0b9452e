"""Tests of the arguments of exports, such as a run instead of its model and encoders."""

import os

import pytest

from tests.inference import export_models, onnx_export_test
from ut_keras import export
from ut_keras.errors import DataError
from ut_keras.inference import fixed_shapes
from ut_keras.inference.saved_run import SavedRun


@pytest.mark.parametrize("name", ["export_saved_model", "export_ctranslate2", "export_litert"])
def test_export_of_a_run_names_the_correct_call(name, tmp_path):
    run = SavedRun(*export_models.build("bytes"))
    arguments = r"\(run\.model, .*\)\.$"
    with pytest.raises(ValueError, match=f"Received: a SavedRun. Use {name}{arguments}"):
        getattr(export, name)(run, str(tmp_path / "1"))
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["export_saved_model", "export_ctranslate2"])
def test_export_without_encoders_names_the_correct_call(name, tmp_path):
    model, encoders = export_models.build("bytes")
    with pytest.raises(ValueError, match=f"encoders must be a dict .*Use {name}"):
        getattr(export, name)(model, str(tmp_path / "1"))
    with pytest.raises(ValueError, match="directory must be a path"):
        getattr(export, name)(model, encoders)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["export_saved_model", "export_ctranslate2"])
def test_export_expands_the_home_folder(name, tmp_path, monkeypatch):
    """`ut_keras.load` also expands "~". Without this, the export would be in a folder "~"."""
    model, encoders = export_models.build("bytes")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "1").mkdir()
    with pytest.raises(FileExistsError, match=str(tmp_path / "1")):
        getattr(export, name)(model, encoders, "~/1")
    assert os.listdir(tmp_path) == ["1"]


@pytest.mark.parametrize(
    "name",
    ["export_litert", pytest.param("export_onnx", marks=onnx_export_test.needs_extra)],
)
def test_export_to_a_path_that_is_a_folder_names_the_path(name, tmp_path, monkeypatch):
    """The error appears before the conversion, which can take half a minute."""
    model, _ = export_models.build("bytes")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fixed_shapes, "whole_search", None)  # the conversion would call it
    (tmp_path / "1").mkdir()
    with pytest.raises(DataError, match=f"{tmp_path / '1'} must be a file. Received: a folder"):
        getattr(export, name)(model, "~/1", 4)
    assert os.listdir(tmp_path) == ["1"]
