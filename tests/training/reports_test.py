import pytest

from tests.training import toy
from ut_keras.training import reports


def test_shallow_pondering_is_told_with_its_cure():
    (line,) = reports.Advice().lines(1000, {"ponder_time": 2.04})
    assert "ponder 2.04 steps" in line
    assert "--hparams=act_halting_bias_init=-3.0" in line and "_deepstart" in line


@pytest.mark.parametrize(
    "step, averages",
    [(999, {"ponder_time": 2.0}), (1000, {"ponder_time": 2.6}), (1000, {"loss": 1.0})],
)
def test_no_advice_on_pondering(step, averages):
    assert reports.Advice().lines(step, averages) == []


def test_a_slow_input_pipeline_is_told():
    (line,) = reports.Advice().lines(1000, {"input_wait": 0.4, "device_wait": 0.0})
    assert line.startswith("Warning: 40% of the time") and "bottleneck" in line


@pytest.mark.parametrize("waited, busy", [(0.2, 0.0), (0.5, 0.3)])
def test_a_busy_device_is_not_the_pipelines_fault(waited, busy):
    averages = {"input_wait": waited, "device_wait": busy}
    assert reports.Advice().lines(1000, averages) == []


def test_each_thing_is_said_once():
    adviser = reports.Advice()
    assert len(adviser.lines(1000, {"ponder_time": 2.0})) == 1
    assert len(adviser.lines(1100, {"ponder_time": 2.0, "input_wait": 0.9})) == 1
    assert adviser.lines(1200, {"ponder_time": 2.0, "input_wait": 0.9}) == []


def test_a_run_says_it(tmp_path, capsys):
    # The toy ponders two steps.
    trainer, _ = toy.make_trainer(
        tmp_path, train_steps=1000, eval_every_steps=1000, log_every_steps=500
    )
    trainer.train(lambda number: toy.dataset(num_batches=1000))
    assert capsys.readouterr().out.count("Warning: positions ponder 2.00 steps") == 1
