"""The runs that ship with the package. tests/docs runs the examples of their cards."""

import os

import pytest

from ut_keras import pretrained

LARGEST = 15_000_000  # bytes of all runs in total


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
