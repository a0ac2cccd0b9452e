import json

import numpy as np
import pytest
import tensorflow as tf
from tensorboard import context
from tensorboard.backend.event_processing import (
    data_provider,
    event_accumulator,
    plugin_event_multiplexer,
)

from ut_keras.files import metrics_file
from ut_keras.training import summaries


def _run(folder, steps):
    """Write the records of a run that evaluates and decodes at every second step."""
    written = summaries.Summaries(str(folder))
    for step in steps:
        written.write_training(step, {"loss": float(step)})
        if step % 2 == 0:
            written.write_evaluation(step, {"accuracy": 0.5})
            written.write_evaluation(step, {"decode/accuracy": 0.5}, kind="decode")
    written.close()


def _steps(folder):
    return [
        json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()
    ]


@pytest.mark.parametrize("last_step, expected", [(4, [2, 2, 4, 4]), (3, [2, 2])])
def test_rewind_removes_later_records(tmp_path, last_step, expected):
    _run(tmp_path, [1, 2, 3, 4, 5, 6, 7])
    summaries.Summaries(str(tmp_path)).rewind(last_step)
    assert _steps(tmp_path) == expected
    assert not list(tmp_path.rglob("*ut_keras-*"))


def test_rewind_removes_only_repeated_evaluations(tmp_path):
    _run(tmp_path, [1, 2])
    for problem, split in (("problem", "test"), ("other", "dev")):
        other = summaries.Summaries(str(tmp_path), problem, split)
        other.write_evaluation(2, {"loss": 1.0})
        other.close()
    summaries.Summaries(str(tmp_path)).rewind(2, drop_last_evaluation=True)
    left = [(record["problem"], record["split"]) for record in metrics_file.records(str(tmp_path))]
    assert left == [("problem", "test"), ("other", "dev")]


def test_rewind_does_not_change_a_complete_file(tmp_path):
    _run(tmp_path, [1, 2])
    (tmp_path / "note.txt").write_text("x")
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*")}
    summaries.Summaries(str(tmp_path)).rewind(2)
    assert {path: path.stat().st_ino for path in tmp_path.rglob("*")} == before


def test_rewind_removes_an_incomplete_line(tmp_path):
    _run(tmp_path, [1, 2, 3])
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    summaries.Summaries(str(tmp_path)).rewind(3)
    assert _steps(tmp_path) == [2]


def test_rewind_without_file(tmp_path):
    summaries.Summaries(str(tmp_path)).rewind(-1)
    assert not list(tmp_path.iterdir())


def test_is_evaluated(tmp_path):
    written = summaries.Summaries(str(tmp_path))
    assert not written.is_evaluated(2, decoded=False)
    written.write_evaluation(2, {"accuracy": 0.5})
    assert written.is_evaluated(2, decoded=False)
    assert not written.is_evaluated(2, decoded=True)
    assert not summaries.Summaries(str(tmp_path), split="test").is_evaluated(2, decoded=False)
    written.write_evaluation(2, {"decode/accuracy": 0.5}, kind="decode")
    assert written.is_evaluated(2, decoded=True)
    written.close()


def test_ponder_histograms_contain_real_positions(tmp_path):
    ponder = {"encoder": (np.array([[2.0, 3.0, 9.0]]), np.array([[1, 1, 0]]))}
    written = summaries.Summaries(str(tmp_path))
    written.write_training(7, {}, ponder)
    written.close()
    [path] = tmp_path.glob("events.out.*")
    events = tf.compat.v1.train.summary_iterator(str(path))
    [(step, value)] = [(event.step, value) for event in events for value in event.summary.value]
    assert (step, value.tag) == (7, "ponder_times/encoder")
    buckets = tf.make_ndarray(value.tensor)
    assert buckets[0, 0] == 2 and buckets[-1, 1] == 3 and buckets[:, 2].sum() == 2


def _written(folder):
    written = summaries.Summaries(str(folder), "mine")
    written.write_training(7, {"loss": 0.5, "learning_rate": 1e-3})
    written.write_training(8, {"loss": float("inf"), "learning_rate": 2e-3})
    written.write_evaluation(8, {"loss": 0.25, "accuracy": 0.75})
    written.write_evaluation(8, {"decode/bleu": 12}, kind="decode")
    written.close()


def test_event_accumulator_finds_scalars(tmp_path):
    """The test uses `EventAccumulator`, because scripts for T2T's event files use this class."""
    _written(tmp_path)
    found = {}
    for folder in ("", "eval", "decode"):
        accumulator = event_accumulator.EventAccumulator(str(tmp_path / folder))
        accumulator.Reload()
        for tag in accumulator.Tags()["scalars"]:
            found[folder, tag] = [(e.step, e.value) for e in accumulator.Scalars(tag)]
    assert found == {
        ("", "loss"): [(7, 0.5), (8, float("inf"))],
        ("", "learning_rate"): [(7, pytest.approx(1e-3)), (8, pytest.approx(2e-3))],
        ("eval", "loss"): [(8, 0.25)],
        ("eval", "metrics-mine/targets/accuracy"): [(8, 0.75)],
        ("decode", "decode/bleu"): [(8, 12)],
    }


def test_tensorboard_shows_scalars_and_histograms(tmp_path):
    """The test reads the files in the same way as the web page of TensorBoard."""
    _written(tmp_path)
    written = summaries.Summaries(str(tmp_path))
    written.write_training(9, {}, {"encoder": (np.ones([1, 3]), np.ones([1, 3]))})
    written.close()
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(tmp_path))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(tmp_path))
    read = {"ctx": context.RequestContext(), "experiment_id": "", "plugin_name": "scalars"}
    series = provider.read_scalars(**read, downsample=100)
    values = {
        (run, tag): [(point.step, point.value) for point in points]
        for run, tags in series.items()
        for tag, points in tags.items()
    }
    assert values[".", "loss"] == [(7, 0.5), (8, float("inf"))]
    assert values["eval", "metrics-mine/targets/accuracy"] == [(8, 0.75)]
    assert values["decode", "decode/bleu"] == [(8, 12)]
    histograms = provider.list_tensors(**{**read, "plugin_name": "histograms"})
    assert [*histograms["."]] == ["ponder_times/encoder"]
