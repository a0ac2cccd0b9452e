import json

import pytest

from tests.training import toy
from ut_keras.training import early_stopping

NAN = float("nan")


def _stopping(values, metric="loss", patience_steps=200, delta=0.1, minimize=None):
    """Return an `EarlyStopping` with one evaluation after every 100 steps."""
    stopping = early_stopping.EarlyStopping(metric, patience_steps, delta, minimize)
    for number, value in enumerate(values, 1):
        stopping.add(100 * number, {stopping.metric: value})
    return stopping


@pytest.mark.parametrize(
    "values, stops",
    [
        ([3.0, 2.0, 1.0], False),
        ([1.0, 1.0], False),
        ([1.0, 1.0, 1.0], True),
        ([1.0, 2.0, 0.95], True),
        ([1.0, 0.89, 0.88], False),
        # The sum of small improvements within the patience counts as one improvement.
        ([1.0, 0.94, 0.88, 0.82], False),
        ([1.0, 0.96, 0.92, 0.88], True),
        ([1.0, 0.97, 0.94], True),
        # An improvement is measured from the last value before the latest `patience_steps` steps,
        # not from the best value.
        ([1.0, 3.0, 2.0, 1.5], False),
        # A temporary improvement also counts as an improvement.
        ([1.0, 0.8, 1.0], False),
    ],
)
def test_early_stopping_requires_improvement_by_delta(values, stops):
    assert _stopping(values).should_stop is stops


@pytest.mark.parametrize("values, stops", [([2.0, 2.0, 3.0], True), ([2.0, 3.0, 1.999], False)])
def test_early_stopping_accepts_any_improvement_with_delta_0(values, stops):
    assert _stopping(values, delta=0.0).should_stop is stops
    assert _stopping(values, patience_steps=0).should_stop


def test_early_stopping_never_stops_without_patience():
    assert not _stopping([1.0] * 50, patience_steps=None).should_stop


def test_best_step_is_the_last_of_equal_values():
    assert _stopping([3.0, 1.0, 1.0, 2.0]).best_step == 300
    assert _stopping([3.0, 1.0, 5.0], "decode/bleu").best_step == 300
    assert _stopping([3.0, 1.0, 5.0], "decode/bleu", minimize=True).best_step == 200
    assert _stopping([]).best_step is None


@pytest.mark.parametrize("metric", ["loss", "decode/matthews"])
def test_best_step_is_never_a_nan(metric):
    assert _stopping([NAN, 1.0, NAN], metric).best_step == 200
    assert _stopping([NAN, NAN], metric).best_step == 200
    worst = float("inf" if metric == "loss" else "-inf")
    assert _stopping([worst, NAN], metric).best_step == 100


@pytest.mark.parametrize("values", [[NAN, 1.0, 1.0], [1.0, NAN, 1.0], [1.0, 1.0, NAN]])
def test_early_stopping_continues_after_a_nan(values):
    assert not _stopping(values).should_stop


def test_best_step_is_the_last_for_metric_step(tmp_path):
    stopping = early_stopping.EarlyStopping("step")
    stopping.check(["loss"])
    assert stopping.add(200, {"loss": 1.0}) and stopping.add(300, {"loss": 2.0})
    (tmp_path / "metrics.jsonl").write_text('{"step": 400, "time": 0, "split": "dev", "loss": 3}\n')
    stopping.read(str(tmp_path), last_step=400)
    assert stopping.best_step == 400


def test_unknown_metric_error_lists_names():
    stopping = early_stopping.EarlyStopping("acuracy")
    with pytest.raises(early_stopping.MetricError, match="accuracy, loss. Received: 'acuracy'"):
        stopping.add(1, {"loss": 1.0, "accuracy": 0.5})


def test_read_restores_earlier_results(tmp_path):
    records = [{"step": 100, "loss": 1.0}, {"step": 100, "decode/bleu": 7.0}, {"step": 200}]
    records += [{"step": 200, "loss": 0.5}, {"step": 300, "loss": 0.1}]
    text = "".join(json.dumps(record) + "\n" for record in records) + '{"step": 200, "lo'
    (tmp_path / "metrics.jsonl").write_text(text)
    stopping = early_stopping.EarlyStopping("loss")
    stopping.read(str(tmp_path), last_step=200)
    assert stopping.best_step == 200


def test_read_ignores_other_splits_and_problems(tmp_path):
    """`--schedule=evaluate` adds records of other splits and problems.

    These records must not control training.
    """
    records = [{"step": 100, "problem": "mine", "split": "dev", "loss": 1.0}]
    records += [{"step": 200, "problem": "mine", "split": "test", "loss": 0.1}]
    records += [{"step": 300, "problem": "other", "split": "dev", "loss": 0.1}]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "metrics.jsonl").write_text(text)
    stopping = early_stopping.EarlyStopping("loss")
    stopping.read(str(tmp_path), 300, problem="mine", split="dev")
    assert stopping.best_step == 100


def _trainer(tmp_path, **settings):
    stopping = early_stopping.EarlyStopping("accuracy", patience_steps=8, delta=2.0)
    return toy.make_trainer(
        tmp_path, train_steps=1000, eval_every_steps=4, early_stopping=stopping, **settings
    )[0]


@pytest.mark.slow  # this test trains twice; a faster test covers a resumed run
def test_run_stops_and_stays_stopped(tmp_path, capsys):
    # No accuracy can improve by 2.
    trainer = _trainer(tmp_path)
    trainer.continuous_train_and_eval(toy.epoch, toy.eval_dataset)
    assert int(trainer.optimizer.iterations) == 12
    assert "Early stopping: accuracy has not improved by 2 for 8 steps" in capsys.readouterr().out
    records = (tmp_path / "metrics.jsonl").read_text()
    again = _trainer(tmp_path, seed=7)
    again.continuous_train_and_eval(toy.epoch, toy.eval_dataset)
    assert int(again.optimizer.iterations) == 12
    steps = [json.loads(line)["step"] for line in records.splitlines()]
    assert steps == [4, 8, 12]


def test_resumed_run_stops_at_the_same_step(tmp_path):
    toy.make_trainer(tmp_path, train_steps=8, eval_every_steps=4)[0].continuous_train_and_eval(
        toy.epoch, toy.eval_dataset
    )
    trainer = _trainer(tmp_path)
    trainer.continuous_train_and_eval(toy.epoch, toy.eval_dataset)
    assert int(trainer.optimizer.iterations) == 12


def test_read_ignores_lines_in_other_formats(tmp_path):
    lines = ["[" * 100_000, "[1]", '{"step": "x", "loss": 1}', '{"step": 7, "loss": {}}']
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 5, "loss": 2.5}', "{"]))
    stopping = early_stopping.EarlyStopping()
    stopping.read(str(tmp_path), last_step=9)
    assert stopping.best_step == 5
