"""`lines.read` rejects an invalid result line in one line, and skips an incomplete last line."""

import dataclasses
import json

import pytest
from results import lines

from tests.benchmarks.results import made_up
from ut_keras.errors import DataError

LINE = made_up.line(1, 0.5, 0.25)


def _write(folder, *texts, name="t.jsonl"):
    (folder / name).write_text("".join(f"{text}\n" for text in texts))


@pytest.mark.parametrize("text", ["", "5", "{", '{"a": ', "[]", json.dumps({"cell": "a/b"})])
@pytest.mark.parametrize("name", ["t.jsonl", "tried.jsonl", "steps.jsonl"])
def test_read_names_invalid_line(text, name, tmp_path):
    _write(tmp_path, text, name=name)
    with pytest.raises(DataError, match=f"{name}, line 1, .*'.*Received: "):
        lines.read(str(tmp_path))


@pytest.mark.parametrize("valid", [{}, {"mean_error": "low"}, 0.5])
@pytest.mark.parametrize("name", ["t.jsonl", "tried.jsonl"])
def test_read_names_line_without_number(valid, name, tmp_path):
    _write(tmp_path, json.dumps({**LINE, "setting": "much", "valid": valid}), name=name)
    with pytest.raises(DataError, match=f"{name}, line 1, .*'valid'. Received: "):
        lines.read(str(tmp_path))


def test_read_skips_incomplete_last_line(tmp_path):
    (tmp_path / "t.jsonl").write_text(json.dumps(LINE) + '\n{"table": "t", "ce')
    assert lines.read(str(tmp_path)).of(made_up.CELL) == [LINE]
    second = made_up.line(2, 0.5, 0.25)
    lines.append(str(tmp_path), "t.jsonl", second)
    assert lines.read(str(tmp_path)).of(made_up.CELL) == [LINE, second]
    assert lines.read(str(tmp_path)).has(made_up.CELL, 2)
    assert not lines.read(str(tmp_path)).has(made_up.CELL, 2, is_tried=True)


@pytest.mark.parametrize("wrong", [{"cell": "task2/adaptive"}, {"updates": 5}, {"set": {}}])
def test_check_names_lines_of_another_recipe(wrong):
    with pytest.raises(DataError, match=r"recipe \w{8} must .* t/task1/adaptive. Received: "):
        lines.check(made_up.lines({**LINE, **wrong}), [made_up.TABLE])
    lines.check(made_up.lines(LINE), [made_up.TABLE])


def test_lines_of_cell_exclude_earlier_recipes():
    earlier = dataclasses.replace(made_up.CELL, updates=3)
    found = made_up.lines(made_up.line(1, 0.5, 0.25, earlier))
    lines.check(found, [made_up.TABLE])
    assert found.of(made_up.CELL) == []
