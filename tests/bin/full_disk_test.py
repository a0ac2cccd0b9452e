"""On a full disk, commands name the file in one line and leave no partial files.

The tests of datagen, exporter, avg_checkpoints and checkpoints have their own full-disk tests.
"""

import errno
import io
import os
import sys

import pytest

import trainer
from tests.bin import full_disk, small_run
from ut_keras.bin import decoder, import_t2t

T2T = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t")
DATA_DIR = os.path.join(T2T, "data_dir")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    small_run.write(folder)
    return folder


def _train(run, place):
    hparams = ",".join(f"{key}={value}" for key, value in small_run.SMALL.items())
    argv = ["--problem=algorithmic_reverse_binary40", "--model=transformer", f"--hparams={hparams}"]
    argv += ["--hparams_set=transformer_tiny", f"--data_dir={DATA_DIR}", f"--output_dir={place}"]
    return trainer.main, [*argv, "--train_steps=1"]


def _import(run, place):
    argv = [f"--t2t_output_dir={os.path.join(T2T, 'ckpt', 'transformer')}"]
    return import_t2t.main, [*argv, f"--data_dir={DATA_DIR}", f"--output_dir={place}"]


def _decode(run, place):
    (place.parent / "source").write_text("0 1\n" * 20)
    argv = [f"--output_dir={run}", f"--data_dir={place}", f"--decode_to_file={place}/target"]
    argv.append("--decode_hparams=beam_size=1,extra_length=1")
    return decoder.main, [*argv, f"--decode_from_file={place.parent}/source"]


def test_decoder_reports_full_standard_output(run, capsys, monkeypatch):
    argv = [f"--output_dir={run}", f"--data_dir={DATA_DIR}", "--decode_interactive"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("0 1\nq\n"))
    with full_disk.full_output() as full:
        monkeypatch.setattr(sys, "stdout", full)
        line = small_run.error(capsys, decoder.main, argv)
        assert f"{os.strerror(errno.ENOSPC)}: standard output" in line


@pytest.mark.parametrize(
    "command, size, file, stays",
    [
        (_train, 100, "run.json", []),
        (_import, 6000, "model.ckpt-20", []),
        (_decode, 70, ".target.ut_keras-partial", []),
        # The decoder keeps the file with the outputs that it has already decoded.
        (_decode, 150, ".target.ut_keras-partial", [".target.ut_keras-partial"]),
    ],
)
def test_full_disk_error_names_the_file(run, tmp_path, capsys, command, size, file, stays):
    place = tmp_path / "place"
    place.mkdir()
    main, argv = command(run, place)
    with full_disk.full_disk(size):
        line = small_run.error(capsys, main, argv)
    assert f"File too large: {place}/{file}" in line, line
    assert full_disk.all_files(place) == stays
    assert not list(place.rglob("*.ut_keras-*/*"))
