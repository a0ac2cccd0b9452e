"""What the README shows works as it stands there."""

import os
import re
import shlex

import pytest

import hparams
import problems
from ut_keras import models
from ut_keras.bin import flags

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _blocks(language, *path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return re.findall(rf"```{language}\n(.*?)```", file.read(), re.DOTALL)


def test_notebook_lines(tmp_path, monkeypatch):
    """The whole block, but for a smaller fit."""
    monkeypatch.chdir(tmp_path)
    [block] = _blocks("python", "README.md")
    shorter = block.replace("epochs=1,", "epochs=1, steps_per_epoch=2, verbose=0,")
    assert shorter != block
    names = {}
    exec(compile(shorter, "README.md", "exec"), names)
    assert (tmp_path / "runs" / "model.keras").exists()
    assert names["decoded"].ids.shape[1] == 4
    assert names["out"].encoder.ponder_times.shape == names["features"]["inputs"].shape


def _trainer_commands():
    text = "\n".join(_blocks("sh", "README.md")).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.startswith("python trainer.py")]


@pytest.mark.parametrize("command", _trainer_commands())
def test_trainer_commands(command):
    """Every flag and every name in them exists."""
    args = flags.parse(flags.TRAINER, shlex.split(command)[2:], "trainer.py", "")
    problems.get(args.problem)
    models.check_name(args.model)
    hparams.get(args.hparams_set, args.hparams).check_supported()


def test_there_are_commands():
    assert len(_trainer_commands()) >= 3
