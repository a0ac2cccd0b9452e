"""Of any two commands that would write in one place, the second is refused by name."""

import contextlib
import os

import pytest

import trainer
from tests.bin import small_run
from ut_keras import path_lock
from ut_keras.bin import avg_checkpoints, datagen, decoder, exporter, import_t2t

PROBLEM = "algorithmic_reverse_binary40"
T2T = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t")


class _Begun(Exception):
    """The first command has come so far that it holds its lock."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    small_run.write(folder, steps=(1, 2))
    return folder


def _train(place, run, *more):
    argv = [f"--problem={PROBLEM}", "--model=transformer", "--hparams_set=transformer_tiny"]
    data_dir = os.path.join(T2T, "data_dir")
    return trainer.main([*argv, f"--data_dir={data_dir}", f"--output_dir={place}", *more])


def _search(place, run):
    pytest.importorskip("optuna")
    ranged = ["--hparams_range=transformer_base_range", "--autotune_objective=accuracy"]
    return _train(place, run, *ranged)


def _import(place, run):
    source, data_dir = os.path.join(T2T, "ckpt", "transformer"), os.path.join(T2T, "data_dir")
    argv = [f"--t2t_output_dir={source}", f"--data_dir={data_dir}"]
    return import_t2t.main([*argv, f"--output_dir={place}"])


def _generate(place, run):
    return datagen.main([f"--problem={PROBLEM}", f"--data_dir={place}", f"--tmp_dir={place}"])


def _generate_a_part(place, run):
    argv = [f"--problem={PROBLEM}", f"--data_dir={place}", "--task_id=3"]
    return datagen.main(argv)


def _generate_and_train(place, run):
    argv = [f"--output_dir={place}/{len(os.listdir(place))}", "--generate_data"]
    return _train(place, run, f"--data_dir={place}", *argv)


def _decode(place, run):
    return _decoder(place, run, f"--decode_from_file={_source(place)}")


def _score(place, run):
    return _decoder(place, run, f"--score_file={_source(place)}")


def _decoder(place, run, *more):
    argv = [f"--output_dir={run}", f"--data_dir={place}", f"--decode_to_file={place}/target"]
    return decoder.main([*argv, *more])


def _source(place):
    path = os.path.join(place, "source")
    with open(path, "w") as file:
        file.write("0 1\t1 0\n")
    return path


def _average(place, run):
    argv = [f"--prefix={run}", "--num_last_checkpoints=2", f"--output_path={place}/averaged"]
    return avg_checkpoints.main(argv)


def _export(place, run):
    argv = [f"--output_dir={run}", f"--data_dir={place}", f"--export_dir={place}"]
    return exporter.main(argv)


# What writes in one place, and the flag that says which it is.
PLACES = {
    "--output_dir": [_train, _search, _import],
    "Data must": [_generate, _generate_a_part, _generate_and_train],
    "--decode_to_file": [_decode, _score],
    "--output_path": [_average],
    "--export_dir": [_export],
}
PAIRS = [
    pytest.param(flag, first, second, id=f"{first.__name__[1:]}-{second.__name__[1:]}")
    for flag, writers in PLACES.items()
    for first in writers
    for second in writers
]


@pytest.mark.parametrize("flag, first, second", PAIRS)
def test_the_second_is_refused_by_name(flag, first, second, run, tmp_path, capsys, monkeypatch):
    plain = path_lock.held
    codes = []

    @contextlib.contextmanager
    def held(path, *said):
        with plain(path, *said):
            # The first holds the lock on what both write: now comes the second.
            if not codes and _is_common(path, tmp_path):
                codes.append(None)
                codes[0] = second(tmp_path, run)
                raise _Begun
            yield

    monkeypatch.setattr(path_lock, "held", held)
    with pytest.raises(_Begun):
        first(tmp_path, run)
    line = capsys.readouterr().err.strip()
    assert codes == [2]
    assert line.startswith(f"error: {flag}") and "\n" not in line
    assert "by one command at a time" in line
    assert f"process {os.getpid()} does so already" in line
    assert not list(tmp_path.rglob("*lock"))


def _is_common(path, place):
    """Whether it is the lock of the place, not of a run's folder or of another file of data."""
    folder, name = os.path.split(path)
    return folder == str(place) and ("-train-" not in name or "-train-00003-" in name)
