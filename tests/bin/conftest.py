"""Fixtures with a run and source texts for the tests of ut-decoder."""

import types

import pytest
import tensorflow as tf

from tests.bin.decoder_run import PROBLEM, Run, write_source
from ut_keras import models
from ut_keras.bin import datagen
from ut_keras.inference import run_directory


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Return a read-only run of `PROBLEM` with checkpoints at steps 1 and 3."""
    data_dir = tmp_path_factory.mktemp("data")
    argv = [f"--problem={PROBLEM}", f"--data_dir={data_dir}", f"--tmp_dir={data_dir}"]
    assert datagen.main(argv) == 0
    return Run(tmp_path_factory.mktemp("run"), data_dir, steps=(1, 3))


@pytest.fixture(scope="module")
def one_model():
    """Share one model between all commands, so that TensorFlow traces a search once."""
    made = {}

    def from_specs(*arguments):
        key = repr(arguments)
        if key not in made:
            made[key] = models.from_specs(*arguments)
        for weight in made[key].weights:
            weight.assign(tf.zeros_like(weight))
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        named = {"from_specs": from_specs, "check_name": models.check_name}
        patch.setattr(run_directory, "models", types.SimpleNamespace(**named))
        yield


@pytest.fixture
def source(tmp_path):
    """Return (path, lines) of a file with 36 lines of 1 to 9 tokens and 4 empty lines."""
    return write_source(tmp_path / "source", shortest=1)


@pytest.fixture
def equal_source(tmp_path):
    """Return (path, lines) of a file with 36 lines of 9 tokens and 4 empty lines."""
    return write_source(tmp_path / "source", shortest=9)
