import io

import pytest
import tensorflow as tf

from tests.training import toy
from ut_keras.models.flops import Flops
from ut_keras.process.live_line import LiveLine
from ut_keras.training import progress, train_step


class _Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def _result(loss=1.0, correct=1.0, ponder_count=4.0):
    return train_step.StepResult(
        losses={"training": tf.constant(loss)},
        loss=tf.constant(loss),
        correct=tf.constant(correct),
        sequences=tf.constant(2.0),
        correct_tokens=tf.constant(0.0),
        target_tokens=tf.constant(0.0),
        newest_correct=tf.constant(0.0),
        newest_sequences=tf.constant(0.0),
        tokens=tf.constant(50.0),
        ponder_sum=tf.constant(10.0 if ponder_count else 0.0),
        ponder_count=tf.constant(ponder_count),
        ponder={},
    )


def _progress(stream, **kwargs):
    clock = _Clock()
    return progress.Progress(100, LiveLine(stream, clock=clock, **kwargs)), clock


def test_line_shows_averages_of_recent_batches():
    stream = io.StringIO()
    line, clock = _progress(stream)
    line.add(1, _result(loss=9.0))
    line.fetch()  # The speed excludes the time of compilation.
    for step in (2, 3):
        line.add(step, _result(loss=3.0, correct=2.0))
    with line.waiting_for_input():
        clock.now += 1.0
    clock.now += 3.0
    line.fetch()
    line.show(3)
    assert stream.getvalue() == (
        "step 3/100  loss 5.000  seq accuracy 0.83  ponder 2.50  2,000 ms/step  03:14 left  "
        "25 tokens/s  input wait 25%\n"
    )


@pytest.mark.parametrize("dtype", [tf.float64, tf.bfloat16])
def test_results_of_a_model_may_have_another_dtype(dtype):
    line, _ = _progress(io.StringIO())
    loss = tf.constant(3.0, dtype)
    line.add(1, _result()._replace(losses={"training": loss}, loss=loss))
    ((_, values),) = line.fetch()
    assert (values["loss"], values["losses/training"], values["tokens"]) == (3.0, 3.0, 50.0)


def test_log_has_no_step_twice():
    stream = io.StringIO()
    line, _ = _progress(stream)
    for step in (1, 2):
        line.add(step, _result())
        line.fetch()
        line.show(step)
        line.show(step)
    assert len(stream.getvalue().splitlines()) == 2


def test_line_of_language_model_shows_accuracy_of_tokens():
    stream = io.StringIO()
    line, _ = _progress(stream)
    of_tokens = {"correct_tokens": tf.constant(3.0), "target_tokens": tf.constant(12.0)}
    line.add(1, _result(correct=0.0)._replace(**of_tokens))
    line.fetch()
    line.show(1)
    assert "  accuracy 0.25" in stream.getvalue() and "seq" not in stream.getvalue()


def test_line_shows_the_share_of_a_known_peak():
    stream = io.StringIO()
    clock = _Clock()
    line = progress.Progress(100, LiveLine(stream, clock=clock), peak=1000.0)
    for step in (1, 2, 3):  # the mean ponder time is 2.5 steps
        line.add(step, _result(), Flops(fixed=100.0, per_step=120.0))
        line.fetch()
        clock.now += 1.0
    line.show(3)
    assert "  50 tokens/s  40% of peak  input wait 0%\n" in stream.getvalue()
    assert line.averages()["share_of_peak"] == pytest.approx(0.4)


def test_line_omits_ponder_time_without_pondering():
    stream = io.StringIO()
    line, _ = _progress(stream)
    line.add(1, _result(ponder_count=0.0))
    line.fetch()
    line.show(1)
    assert "ponder" not in stream.getvalue()


def test_results_are_read_only_when_fetched():
    line, clock = _progress(io.StringIO(), log_seconds=10)
    line.add(1, _result())
    assert not line.is_due
    assert line.averages() == {}
    clock.now += 10
    assert line.is_due
    [(step, values)] = line.fetch()
    assert step == 1 and values["loss"] == 1.0 and values["losses/training"] == 1.0
    assert line.fetch() == []


def test_results_are_read_in_parts(monkeypatch):
    monkeypatch.setattr(progress, "_MAX_TRANSFER", 7)
    line, _ = _progress(io.StringIO())
    losses = [1.0, 2.0, 4.0, 8.0]
    for step, loss in enumerate(losses):
        line.add(step, _result(loss=loss))
    found = line.fetch()
    assert [(step, values["loss"]) for step, values in found] == list(enumerate(losses))
    assert all(values["tokens"] == 50.0 for _, values in found)


def test_terminal_line_is_overwritten():
    stream = _Terminal()
    line, _ = _progress(stream)
    line.add(1, _result(loss=1234567.0))
    line.fetch()
    line.show(1)
    for step in range(200):
        line.add(step, _result())
    line.fetch()
    line.show(2)
    line.end_line()
    _, first, second = stream.getvalue().split("\r")
    assert second.endswith("\n")
    assert len(second.rstrip("\n")) >= len(first), "the rest of a longer line must be wiped out"


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100, 120, 200])
def test_line_always_shows_step_loss_and_accuracy(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", f"{columns}")
    stream = _Terminal()
    clock = _Clock()
    line = progress.Progress(250_000, LiveLine(stream, clock=clock))
    for step in (123_455, 123_456):
        line.add(step, _result(loss=12.345))
        line.fetch()
        clock.now += 0.2
    line.show(step)
    [shown] = stream.getvalue().split("\r")[1:]
    assert len(shown) < columns
    parts = ["step 123456/250000", "loss 12.345", "seq accuracy 0.50", "ponder 2.50"]
    speed = [
        "200 ms/step",
        "7:01:49 left",
        "250 tokens/s",
        "input wait 0%",
        "[#########...........]",
    ]
    found = shown.strip().split("  ")
    assert set(found) <= {*parts, *speed}
    if columns >= 60:
        assert found[:3] == parts[:3]
    if columns == 80:
        assert found[3:] == ["ponder 2.50", "7:01:49 left"]
    if columns == 200:
        assert set(found) == {*parts, *speed}


def test_speed_excludes_pauses():
    line, clock = _progress(io.StringIO())

    def run(steps):
        for step in range(steps):
            line.add(step, _result())
            clock.now += 1.0
            line.fetch()

    run(5)
    speed = line.averages()["tokens_per_second"]
    clock.now += 1000.0
    line.restart_clock()
    run(5)
    assert line.averages()["tokens_per_second"] == pytest.approx(speed) == pytest.approx(50.0)


def test_speed_is_that_of_recent_steps():
    line, clock = _progress(io.StringIO())
    for seconds in [1.0] * 150 + [0.1] * 150:
        clock.now += seconds
        line.add(1, _result())
        line.fetch()
    assert line.averages()["tokens_per_second"] == pytest.approx(500.0)


def test_halting_warning_names_the_hparam():
    line = progress.halting_warning({"ponder_time": 2.04})
    assert "with 2.04 steps" in line
    assert "--hparams=act_halting_bias_init=-3.0" in line and "_deepstart" in line


@pytest.mark.parametrize("averages", [{"ponder_time": 2.6}, {"loss": 1.0}])
def test_halting_warning_is_none_for_normal_pondering(averages):
    assert progress.halting_warning(averages) is None


@pytest.mark.parametrize(
    "train_steps, log_every_steps, warnings", [(99, 30, 0), (100, 30, 1), (220, 1000, 1)]
)
def test_halting_warning_is_printed_once_after_100_steps(
    train_steps, log_every_steps, warnings, tmp_path, capsys
):
    # The toy model has a ponder time of two steps.
    trainer, _ = toy.make_trainer(
        tmp_path, train_steps=train_steps, eval_every_steps=500, log_every_steps=log_every_steps
    )
    trainer.train(lambda number: toy.dataset(num_batches=300))
    warning = "Warning: positions start with 2.00 steps on average"
    assert capsys.readouterr().out.count(warning) == warnings
