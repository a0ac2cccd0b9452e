"""benchmarks/input_pipeline.py measures how fast training reads batches."""

import pytest


@pytest.fixture
def command(benchmark_module):
    return benchmark_module("input_pipeline")


def test_reader_counts_tokens_and_measures_each_part(command, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "WARM_UP", 0)
    command.write_pairs(str(tmp_path), 40)
    reader = command.Reader(str(tmp_path), batch_size=256, turn_tokens=512)
    turns = [reader.turn() for _ in range(2)]
    for turn in turns:
        assert 0 < turn["tokens"] <= 1100 and turn["cpu"] > 0
    assert turns[0]["digest"] != turns[1]["digest"]
    again = command.Reader(str(tmp_path), batch_size=256, turn_tokens=512).turn()
    assert again["digest"] == turns[0]["digest"]
    parts = list(reader.parts().values())
    assert len(parts) == 5 and min(parts) >= 0
