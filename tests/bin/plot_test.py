import json
import re

import pytest

from tests.bin import small_run
from ut_keras import visualize
from ut_keras.bin import plot
from ut_keras.files import metrics_file

matplotlib = pytest.importorskip("matplotlib", reason="no matplotlib: pip install 'ut_keras[plot]'")


def _write(folder, records):
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "metrics.jsonl").write_text(text)
    return folder


def _record(step, split="dev", **values):
    return {"step": step, "time": 1.0, "split": split, **values}


@pytest.fixture
def runs(tmp_path):
    """Two runs: one restarted, with free decoding besides; one evaluated on two splits."""
    first = [
        _record(10, loss=3.0, accuracy=0.1),
        _record(10, **{"decode/accuracy": 0.05}),
        _record(30, loss=9.0),
        _record(20, loss=2.0, accuracy=0.2),
        _record(30, loss=1.0, accuracy=0.3),
    ]
    second = [_record(10, loss=4.0), _record(10, "test", loss=5.0), _record(20, loss=float("nan"))]
    return [_write(tmp_path / "$a_1", first), _write(tmp_path / "_b", second)]


def _error(capsys, tmp_path, **changed):
    flags = {"runs": tmp_path / "run", "output": tmp_path / "out.png", **changed}
    line = small_run.error(capsys, plot.main, [f"--{name}={flags[name]}" for name in flags])
    assert not (tmp_path / "out.png").exists()
    return line


def test_curves_of_several_runs(runs):
    from ut_keras.visualize import figures

    found = {folder.name: metrics_file.read_curves(str(folder)) for folder in runs}
    assert found["$a_1"]["dev", "loss"] == {10: 3.0, 20: 2.0, 30: 1.0}
    assert found["$a_1"]["dev", "decode/accuracy"] == {10: 0.05}
    figure = figures.curves(found, ["loss", "accuracy"])
    loss, accuracy = figure.axes
    assert [line.get_xydata().tolist() for line in loss.lines[:1]] == [[[10, 3], [20, 2], [30, 1]]]
    names = [text.get_text() for text in loss.get_legend().get_texts()]
    assert names == ["$a_1", "_b (dev)", "_b (test)"]
    assert [text.get_text() for text in accuracy.get_legend().get_texts()] == ["$a_1"]
    assert [axes.get_title() for axes in figure.axes] == ["loss", "accuracy"]
    # A colour for a run, whatever the split.
    colours = [line.get_color() for line in loss.lines]
    assert colours[1] == colours[2] != colours[0] == accuracy.lines[0].get_color()


@pytest.mark.parametrize(
    "ending, start", [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".PDF", b"%PDF")]
)
def test_formats(runs, tmp_path, capsys, ending, start):
    output = tmp_path / f"curves{ending}"
    named = f"first\udcff={runs[0]},{runs[1]}/metrics.jsonl"
    assert plot.main([f"--runs={named}", "--metrics=loss,accuracy", f"--output={output}"]) == 0
    assert capsys.readouterr().out == f"Wrote {output}\n"
    assert output.read_bytes().startswith(start)
    assert not list(tmp_path.glob("*.incomplete"))


def test_names_of_runs(tmp_path):
    """The folder's, but the whole path where two are alike."""
    names = plot._named_runs(f"{tmp_path}/x/run/,y={tmp_path}/z,{tmp_path}/w/run/metrics.jsonl")
    assert list(names) == [f"{tmp_path}/x/run/", "y", f"{tmp_path}/w/run/metrics.jsonl"]
    assert names["y"] == f"{tmp_path}/z"
    assert list(plot._named_runs("a/b/,c/metrics.jsonl")) == ["b", "c"]


def test_flags_that_are_wrong(capsys, tmp_path):
    _write(tmp_path / "run", [_record(1, loss=1.0)])
    assert "--runs must be given" in _error(capsys, tmp_path, runs="")
    assert "--runs must differ" in _error(capsys, tmp_path, runs=f"{tmp_path}/run,{tmp_path}/run")
    assert "--metrics must name a metric" in _error(capsys, tmp_path, metrics=",")
    assert "must end in one of .png, .svg, .pdf" in _error(capsys, tmp_path, output="out.jpg")
    assert "in a folder that exists" in _error(capsys, tmp_path, output="/nowhere/out.png")
    assert "--output must be given" in _error(capsys, tmp_path, output="")
    line = _error(capsys, tmp_path, metrics="los")
    assert "Unknown metric of these runs: 'los'. The nearest names: loss." in line


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "must hold metrics.jsonl.*run/metrics.jsonl', which does not exist"),
        ("", "must hold an evaluation. Received: an empty file"),
        ('{"step": 1, "loss": 2.0}\n{"step": 2, "lo', 'line 2: \'{"step": 2, "lo\'; a torn line'),
        ('{"step": 1, "lo{"step": 2, "loss": 1.0}\n', "line 1: "),
        ('{"loss": 1.0}\n', "line 1: .* a step and numbers|a step and numbers.*line 1: "),
        ('{"step": 1, "loss": "low"}\n', "line 1: "),
        ("[1, 2]\n", "line 1: "),
        (f'{{"step": 1, "loss": {10**400}}}', r"none beyond 1e\+300. Received: .* line 1: "),
        (f'{{"step": {-(10**400)}, "loss": 1}}', r"none beyond 1e\+300. Received: .* line 1: "),
        ('{"step": 1, "loss": 1.7e308}\n', r"none beyond 1e\+300. Received: .* line 1: "),
        ("\x00\x01\n", "line 1: "),
    ],
)
def test_files_that_are_missing_or_torn(capsys, tmp_path, text, message):
    run = _write(tmp_path / "run", [])
    if text is None:
        (run / "metrics.jsonl").unlink()
    else:
        (run / "metrics.jsonl").write_text(text)
    assert re.search(message, _error(capsys, tmp_path))


def test_without_matplotlib(capsys, tmp_path, monkeypatch):
    _write(tmp_path / "run", [_record(1, loss=1.0)])
    monkeypatch.setattr(visualize, "has_matplotlib", lambda: False)
    assert "pip install 'ut_keras[plot]'" in _error(capsys, tmp_path)
