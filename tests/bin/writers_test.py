"""If two commands write to one location, the second command fails and its error names the location.

The commands never change files of the user or of other programs in this location, even if the
files have names like temporary files of a command.
"""

import contextlib
import functools
import os
import shutil

import pytest

import trainer
from tests.bin import small_run
from ut_keras.bin import avg_checkpoints, datagen, decoder, exporter, import_t2t, visualize
from ut_keras.data.writing import external_shuffle
from ut_keras.files import path_lock
from ut_keras.problems import algorithmic

PROBLEM = "algorithmic_reverse_binary40"
T2T = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t")


class _Begun(Exception):
    """An exception that stops the first command when it holds its lock."""


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
    argv = [f"--problem={PROBLEM}", f"--data_dir={place}", f"--tmp_dir={place}"]
    return datagen.main([*argv, "--num_concurrent_processes=1"])


def _generate_a_part(place, run):
    argv = [f"--problem={PROBLEM}", f"--data_dir={place}", "--task_id=3"]
    return datagen.main(argv)


def _generate_and_train(place, run):
    argv = [f"--output_dir={place}/{len(os.listdir(place))}", "--generate_data"]
    return _train(place, run, f"--data_dir={place}", *argv)


def _decode(place, run):
    argv = [f"--decode_from_file={_source(place)}", "--decode_hparams=beam_size=1"]
    return _decoder(place, run, *argv)


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
    return exporter.main(
        [*argv, "--format=safetensors"]
    )  # all formats write their folder in the same way


def _draw(place, run):
    argv = [f"--output_dir={run}", f"--data_dir={place}", f"--visualize_dir={place}"]
    return visualize.main([*argv, "--input=0 1"])


# {start of the error message: commands that write to one location}
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
def test_second_writer_is_rejected_by_flag(flag, first, second, run, tmp_path, capsys, monkeypatch):
    plain = path_lock.held
    codes = []

    @contextlib.contextmanager
    def held(path, *arguments):
        with plain(path, *arguments):
            # The first command holds the lock, so the second command starts now.
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
    assert f"process {os.getpid()} " in line
    assert not list(tmp_path.rglob("*lock"))


def _is_common(path, place):
    """Return whether both commands lock `path`."""
    folder, name = os.path.split(path)
    return folder == str(place) and ("-train-" not in name or "-train-00003-" in name)


# Names of the user's files next to the outputs. The endings include typical endings of temporary
# files.
STEMS = ("", "target", "averaged", "run", "1", "checkpoint", "hparams.json", "model.ckpt-1.index")
STEMS += (
    "metrics.jsonl",
    "ponder_encoder.png",
    f"{PROBLEM}-train-00000-of-00010",
    "eval/events.tfevents",
)
ENDINGS = (".lock", ".partial", ".tmp", "_temp", ".incomplete", ".incomplete.mine", ".v2", ".out")
ENDINGS += (".incomplete.8f3a0c1d", f".incomplete.{os.getpid()}", ".ut_keras-mine", ".ut_keras")


def _train_shortly(place, run):
    hparams = ",".join(f"{name}={value}" for name, value in small_run.SMALL.items())
    decode = "--decode_hparams=num_samples=1,beam_size=1,extra_length=1"
    steps = ["--train_steps=2", "--local_eval_frequency=1", "--eval_steps=1"]
    return _train(place, run, f"--hparams={hparams}", *steps, decode, "--keep_checkpoint_max=1")


WRITERS = [_import, _generate, _decode, _score, _average, _export, _draw]


@pytest.mark.parametrize("writer", [*WRITERS, pytest.param(_train_shortly, marks=pytest.mark.slow)])
def test_writers_keep_foreign_files(writer, run, tmp_path, monkeypatch):
    # With a small limit of memory, the command sorts even these few samples on disk.
    monkeypatch.setattr(algorithmic.AlgorithmicProblem, "train_size", 1000)
    buckets = functools.partial(external_shuffle.Buckets, memory=2000)
    monkeypatch.setattr(external_shuffle, "Buckets", buckets)
    place = tmp_path / "place"
    for name in (stem + ending for stem in STEMS for ending in ENDINGS):
        _put(place / name)
    before = _content(place)
    assert writer(place, run) == 0
    after = _content(place)
    assert {name: after.get(name) for name in before} == before and len(after) > len(before)


# The names of the temporary files of each command, and of outputs whose names the command chooses.
_OF_RUN = [".run.ut_keras-lock", "hparams.json", "run.json", "features.json"]
_OF_RUN += ["vocab.inputs.subwords", "vocab.targets.tokens"]
IN_THE_WAY = {
    _train: [*_OF_RUN, "best/run.json"],
    _import: [*_OF_RUN, "checkpoint"],
    _generate: [
        f".{PROBLEM}-train-00003-of-00010.ut_keras-lock",
        f"{PROBLEM}-train-00003-of-00010",
        ".ut_keras-records",
        f".ut_keras-records/datagen.{PROBLEM}-train.json",
    ],
    _decode: [".target.ut_keras-lock", ".target.ut_keras-partial"],
    _score: [".target.ut_keras-lock", ".target.ut_keras-partial"],
    _average: [".averaged.ut_keras-lock"],
    _export: [".export.ut_keras-lock"],
    _draw: ["attention_encoder_step_1.png", "ponder_encoder.png"],
}


@pytest.mark.parametrize("kind", ["file", "link", "pipe"])
@pytest.mark.parametrize(
    "writer, name",
    [
        pytest.param(writer, name, id=f"{writer.__name__[1:]}-{name}")
        for writer, names in IN_THE_WAY.items()
        for name in names
    ],
)
def test_blocking_file_is_named(writer, name, kind, run, tmp_path, capsys):
    place = tmp_path / "place"
    _put(place / name, kind)
    before = _content(tmp_path)
    assert writer(place, run) == 2
    line = capsys.readouterr().err.strip()
    assert line.startswith("error: ") and "\n" not in line
    assert (name if name != "checkpoint" else "place") in line or "files of unknown origin" in line
    after = _content(tmp_path)
    assert {name: after.get(name) for name in before} == before


@pytest.mark.parametrize("name", ["hparams.json", "vocab.inputs.tokens", "checkpoint"])
def test_average_keeps_foreign_records(name, run, tmp_path):
    _put(tmp_path / name)
    before = _content(tmp_path)
    assert _average(tmp_path, run) == 0
    after = _content(tmp_path)
    assert after.items() >= before.items()
    assert {path.partition("-")[0] for path in after.keys() - before.keys()} == {"averaged"}


def test_run_in_best_folder_is_kept(run, tmp_path, capsys):
    small = ",".join(f"{name}={value}" for name, value in small_run.SMALL.items())

    def assert_rejected(message):
        shutil.copytree(run, tmp_path / "best")
        before = _content(tmp_path)
        assert _train(tmp_path, run, "--train_steps=0", f"--hparams={small}") == 2
        assert message in capsys.readouterr().err
        assert _content(tmp_path) == before
        shutil.rmtree(tmp_path / "best")

    assert_rejected("without a checkpoint of its run")
    argv = ("--train_steps=0", "--schedule=train", f"--hparams={small}")
    assert _train(tmp_path, run, *argv) == 0
    # The trainer also rejects another run in `best` if the folder already contains a run.
    assert_rejected("OUTPUT_DIR/best must contain only")


def _put(path, kind="file"):
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (path.parent / "linked").write_text("mine")
        path.symlink_to(path.parent / "linked")
    else:
        path.write_text(f"mine, {path.name}")


def _content(place):
    """Return {path: content} of all files, links and pipes in a folder."""
    found = {}
    for path in place.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(place))] = os.readlink(path)
        elif not path.is_dir():
            found[str(path.relative_to(place))] = path.read_bytes() if path.is_file() else "pipe"
    return found
