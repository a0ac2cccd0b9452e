import json

import numpy as np
import pytest
import tensorflow as tf

from ut_keras.files import metrics_file
from ut_keras.training import summaries


def _run(folder, steps):
    """The records of a run that was evaluated, and decoded from, at every second step."""
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
def test_later_records_go(tmp_path, last_step, expected):
    _run(tmp_path, [1, 2, 3, 4, 5, 6, 7])
    summaries.Summaries(str(tmp_path)).rewind(last_step)
    assert _steps(tmp_path) == expected
    assert not list(tmp_path.rglob("*ut_keras-*"))


def test_what_comes_again_goes_and_nothing_of_another_split_or_problem(tmp_path):
    _run(tmp_path, [1, 2])
    for problem, split in (("problem", "test"), ("other", "dev")):
        other = summaries.Summaries(str(tmp_path), problem, split)
        other.write_evaluation(2, {"loss": 1.0})
        other.close()
    summaries.Summaries(str(tmp_path)).rewind(2, again=True)
    left = [(record["problem"], record["split"]) for record in metrics_file.records(str(tmp_path))]
    assert left == [("problem", "test"), ("other", "dev")]


def test_what_is_whole_is_left_alone(tmp_path):
    _run(tmp_path, [1, 2])
    (tmp_path / "note.txt").write_text("x")
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*")}
    summaries.Summaries(str(tmp_path)).rewind(2)
    assert {path: path.stat().st_ino for path in tmp_path.rglob("*")} == before


def test_torn_ends_go(tmp_path):
    _run(tmp_path, [1, 2, 3])
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    summaries.Summaries(str(tmp_path)).rewind(3)
    assert _steps(tmp_path) == [2]


def test_nothing_to_rewind(tmp_path):
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


def test_ponder_histograms_are_of_real_positions(tmp_path):
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
