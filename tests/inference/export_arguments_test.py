"""Tests of exports that get a run instead of its model and encoders."""

import os

import pytest

from tests.inference import export_models
from ut_keras import export
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
