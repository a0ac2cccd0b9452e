"""The run and the texts that the tests of ut-decoder share."""

import numpy as np
import pytest

from tests.bin.decoder_run import PROBLEM, Run
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
    return _source(tmp_path / "source", shortest=1)


@pytest.fixture
def equal_source(tmp_path):
    """The same with 9 symbols a line."""
    return _source(tmp_path / "source", shortest=9)


def _source(path, shortest):
    rng = np.random.default_rng(7)
    lengths = rng.integers(shortest, 10, size=40)
    lines = [" ".join(map(str, rng.integers(2, size=length))) for length in lengths]
    lines[3] = lines[4] = lines[20] = lines[39] = ""
    path.write_text("".join(f"{line}\n" for line in lines))
    return path, lines
