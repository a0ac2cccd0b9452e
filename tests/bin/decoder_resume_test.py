"""ut-decoder resumes an interrupted command if all settings are the same."""

import contextlib
import io
import os
import shutil
import signal

import pytest

from tests.bin.decoder_run import write_source
from ut_keras.bin import decoder
from ut_keras.files import path_lock
from ut_keras.inference import predictor

pytestmark = pytest.mark.usefixtures("one_model")
_HOW = "--decode_hparams=beam_size=1,extra_length=3,batch_size=4"


@pytest.fixture
def interruption(monkeypatch):
    """Return {"batches": number of batches so far, "at": number of the batch with SIGTERM}."""
    return _interruption(monkeypatch)


def _interruption(monkeypatch):
    counts = {"batches": 0, "at": None}
    call = predictor.Predictor.outputs

    def predict(self, *args, **kwargs):
        counts["batches"] += 1
        if counts["batches"] == counts["at"]:
            signal.raise_signal(signal.SIGTERM)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(predictor.Predictor, "outputs", predict)
    return counts


def test_resume_continues_after_the_interruption(
    run, source, tmp_path, capsys, interruption, partial
):
    argv = run.argv(f"--decode_from_file={source[0]}", _HOW)
    assert decoder.main([*argv, f"--decode_to_file={tmp_path / 'whole'}"]) == 0
    all_batches, interruption["batches"] = interruption["batches"], 0
    assert all_batches == 9  # 36 non-empty lines in batches of 4

    argv.append(f"--decode_to_file={tmp_path / 'out'}")
    shutil.copy(partial, tmp_path / ".out.ut_keras-partial")
    capsys.readouterr()
    assert decoder.main(argv) == 0
    assert ".out.ut_keras-partial" in capsys.readouterr().out
    assert interruption["batches"] == all_batches - 3
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / ".out.ut_keras-partial").exists()


@pytest.fixture(scope="module")
def partial(run, tmp_path_factory):
    """Return the partial output of a command that was interrupted in its third batch."""
    folder = tmp_path_factory.mktemp("stopped")
    source, _ = write_source(folder / "source", shortest=1)
    argv = run.argv(f"--decode_from_file={source}", f"--decode_to_file={folder / 'out'}", _HOW)
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as monkeypatch, contextlib.redirect_stdout(output):
        _interruption(monkeypatch)["at"] = 3
        assert decoder.main(argv) == 143
    assert "16 of 40 lines" in output.getvalue()
    assert not (folder / "out").exists() and (folder / ".out.ut_keras-partial").exists()
    return folder / ".out.ut_keras-partial"


@pytest.mark.parametrize("change", ["settings", "checkpoint", "input", "weights"])
def test_resume_restarts_after_a_change(
    run, source, tmp_path, capsys, interruption, partial, change
):
    how = _HOW
    argv = run.argv(f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}")
    shutil.copy(partial, tmp_path / ".out.ut_keras-partial")
    if change == "settings":
        how = how.replace("extra_length=3", "extra_length=2")
    elif change == "checkpoint":
        argv.append(f"--checkpoint_path={run.folder}/model.ckpt-1")
    elif change == "input":
        source[0].write_text(source[0].read_text().replace("0", "1", 1))
    else:  # the checkpoint gets other weights but keeps its name and modification time
        folder = tmp_path / "other"
        shutil.copytree(run.folder, folder)
        for ending in ("index", "data-00000-of-00001"):
            shutil.copy(folder / f"model.ckpt-1.{ending}", folder / f"model.ckpt-3.{ending}")
            times = os.stat(run.folder / f"model.ckpt-3.{ending}")
            os.utime(folder / f"model.ckpt-3.{ending}", ns=(times.st_atime_ns, times.st_mtime_ns))
        argv[0] = f"--output_dir={folder}"
    assert decoder.main([*argv, how]) == 0
    assert interruption["batches"] >= 9
    assert "Starting again" in capsys.readouterr().out


def test_target_rejects_a_second_command(run, source, tmp_path, capsys):
    target = tmp_path / "out"
    with path_lock.held(str(target), "--decode_to_file must be written"):
        argv = run.argv(f"--decode_from_file={source[0]}", f"--decode_to_file={target}")
        assert decoder.main(argv) == 2
    assert "--decode_to_file must be written by one command at a time" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["source"]
