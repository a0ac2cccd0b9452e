"""Tests of the runs that ship with the package. tests/docs runs the examples in their cards."""

import importlib
import os

import pytest

from ut_keras import pretrained

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LARGEST = 15_000_000  # the largest allowed size of all runs together, in bytes


def test_pretrained_runs_are_small():
    folders = [pretrained.folder(name) for name in pretrained.names()]
    files = [os.path.join(folder, file) for folder in folders for file in os.listdir(folder)]
    assert 0 < sum(map(os.path.getsize, files)) < LARGEST


@pytest.mark.parametrize("name", pretrained.names())
def test_pretrained_run_has_card(name):
    with open(os.path.join(pretrained.folder(name), "README.md"), encoding="utf-8") as file:
        card = file.read()
    assert f'ut_keras.load("{name}")' in card and "assert" in card
    for row in ("data", "command", "held-out split", "limits"):
        assert f"| {row} |" in card


def test_folder_rejects_unknown_name():
    with pytest.raises(ValueError, match="name .*reverse40.* Received: '../tests'"):
        pretrained.folder("../tests")


def test_addition10_takes_more_steps_for_distant_carries(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
    ponder_by_carry = importlib.import_module("ponder_by_carry")
    distances, times, correct = ponder_by_carry.measure("addition10", 500)
    means = [times[distances == distance].mean() for distance in (1, 3, 5, 7)]
    assert means == sorted(means) and means[-1] > means[0] + 1
    assert correct.mean() > 0.999


def test_carry_distances_are_those_of_the_nearest_column_that_decides(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
    ponder_by_carry = importlib.import_module("ponder_by_carry")
    assert ponder_by_carry.carry_distances("0+0 2+6 4+5 7+8") == [1, 2, 1, 0]
    assert ponder_by_carry.carry_distances("0+0 4+5 9+0") == [2, 1, 0]


def test_picture_of_ponder_times_shows_what_addition10_computes(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "scripts"))
    ponder_picture = importlib.import_module("ponder_picture")
    with open(ponder_picture.PICTURE, encoding="utf-8") as file:
        shown = file.read()
    columns, times, digits = ponder_picture.observed()
    assert shown == ponder_picture.draw(columns, times, digits), "run: scripts/ponder_picture.py"
    first, second = (int("".join(column[i] for column in columns)) for i in (0, 2))
    assert int("".join(digits)) == first + second
    assert shown.count("<rect") == 2 + sum(times)  # one box per step, the background and a pattern
