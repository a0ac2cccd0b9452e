"""The run and the texts that the tests of ut-decoder share."""

import pytest

from tests.bin.decoder_run import PROBLEM, Run, write_source
from ut_keras.bin import datagen


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A run of `PROBLEM` with checkpoints of steps 1 and 3, which no test may change."""
    data_dir = tmp_path_factory.mktemp("data")
    argv = [f"--problem={PROBLEM}", f"--data_dir={data_dir}", f"--tmp_dir={data_dir}"]
    assert datagen.main(argv) == 0
    return Run(tmp_path_factory.mktemp("run"), data_dir, steps=(1, 3))


@pytest.fixture
def source(tmp_path):
    """A file of 40 lines of 1 to 9 symbols, four of them empty, and its lines."""
    return write_source(tmp_path / "source", shortest=1)


@pytest.fixture
def equal_source(tmp_path):
    """The same with 9 symbols a line."""
    return write_source(tmp_path / "source", shortest=9)
