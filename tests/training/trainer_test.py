"""Tests of the trainer: training, evaluation, decoding, and errors before training."""

import dataclasses
import json
import os
import re
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests.training import toy
from ut_keras import optimizers
from ut_keras.checkpoints import checkpoint
from ut_keras.data import features as features_lib
from ut_keras.data.reading import packing
from ut_keras.inference import decode_hparams
from ut_keras.process import interruption, live_line
from ut_keras.training import (
    distribution,
    early_stopping,
    evaluation,
    saving,
    trainer,
)


def _make(output_dir, dropout=0.2, learning_rate=0.05, seed=1, settings=None, **kwargs):
    seeds.set_seed(seed)
    strategy = distribution.get_strategy(devices=["CPU:0"])
    with strategy.scope():
        model = toy.ToyModel(dropout)
        optimizer = optimizers.Adam(learning_rate)
    values = {"train_steps": 12, "eval_every_steps": 6, "log_every_steps": 5}
    settings = {**values, **(settings or {})}
    return toy.trainer_of(model, optimizer, strategy, output_dir, settings, **kwargs), model


def _epoch(number):
    return toy.dataset(seed=number)


def _epoch_zero():
    return toy.dataset(seed=0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return (folder, results, weights) of a run that is evaluated at steps 6 and 12."""
    folder = tmp_path_factory.mktemp("finished")
    trainer, model = _make(folder)
    results = trainer.continuous_train_and_eval(_epoch, _epoch_zero)
    return folder, results, _weights(model)


@pytest.fixture
def run(finished, tmp_path):
    """Return a copy of the folder of the finished run."""
    return shutil.copytree(finished[0], tmp_path / "run")


def _records(output_dir):
    lines = (output_dir / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _weights(model):
    return [variable.numpy() for variable in model.variables]


def test_train_eval_and_decode_learns_and_writes_records(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(live_line, "_LOG_SECONDS", 0)
    trainer, _ = _make(tmp_path, dropout=0.0, settings={"train_steps": 100, "eval_every_steps": 50})
    results = trainer.train_eval_and_decode(_epoch, lambda: toy.dataset(seed=99))
    assert results["accuracy_per_sequence"] == 1.0
    assert results["decode/accuracy_per_sequence"] == 1.0
    assert results["ponder_time"] == 2.0
    assert results["loss"] == pytest.approx(results["losses/training"] + results["losses/act_loss"])
    output = capsys.readouterr().out
    assert re.search(r"step 100/100  loss \d.*  seq accuracy .*  ponder 2.00  .*tokens/s", output)
    assert re.match(
        r"decode/accuracy_per_sequence=1 decode/accuracy=1 decode/num_samples=\d+ "
        r"accuracy_per_sequence=1 accuracy=1 loss=\S+ .*steps=100 train_time=\d+s$",
        output.splitlines()[-1],
    )
    assert "reference: " in output and "(right)" in output
    number = int(results["decode/num_samples"])
    assert f"free decoding, examples: {number}, " in output
    assert re.search(r"evaluation, batches: \d+ of 100 ", output)
    records = _records(tmp_path)
    assert [record["step"] for record in records] == [50, 50, 100, 100]
    assert records[2]["split"] == "dev" and records[2]["accuracy"] == 1.0
    assert records[3]["decode/accuracy_per_sequence"] == 1.0
    assert (tmp_path / "model.ckpt-100.index").exists()
    for folder in ("", "eval", "decode"):
        assert list((tmp_path / folder).glob("events.out.*")), folder


def test_run_without_updates_can_resume(tmp_path):
    for steps in (0, 2):
        trainer, _ = _make(tmp_path, settings={"train_steps": steps, "eval_every_steps": 2})
        trainer.continuous_train_and_eval(_epoch, _epoch_zero)
        assert (tmp_path / f"model.ckpt-{steps}.index").exists()
    assert [record["step"] for record in _records(tmp_path)] == [0, 2]


def test_tensorboard_gets_scalars_and_ponder_histograms(finished):
    def tags(folder):
        found = set()
        for path in folder.glob("events.out.*"):
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                found.update(value.tag for value in event.summary.value)
        return found

    assert {"loss", "losses/training", "learning_rate", "ponder_times/encoder"} <= tags(finished[0])
    assert "metrics-toy_copy/targets/accuracy_per_sequence" in tags(finished[0] / "eval")


def test_resumed_run_equals_uninterrupted_run(finished, tmp_path):
    # Step 7 is in the middle of the second epoch.
    first, _ = _make(tmp_path, settings={"train_steps": 7})
    first.train(_epoch)
    second, model = _make(tmp_path, seed=5)
    second.train(_epoch)
    assert int(second.optimizer.iterations) == 12
    for expected, actual in zip(finished[2], _weights(model), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_finished_run_is_not_trained_again(run, capsys):
    (run / "metrics.jsonl").unlink()  # now the run has no evaluations
    trainer, _ = _make(run, settings={"warm_start_from": "other"})
    trainer.continuous_train_and_eval(_epoch, _epoch_zero)
    shown = capsys.readouterr().out
    assert "Resuming from step 12" in shown and "note: --warm_start_from has no effect" in shown
    assert "(nothing left to train up to --train_steps=12)" in shown
    assert [record["step"] for record in _records(run)] == [12]


def test_evaluate_reads_the_newest_checkpoint(finished, run, capsys):
    other, _ = _make(run, seed=3)
    assert other.evaluate(None, _epoch_zero) == finished[1]
    assert "steps=12" in capsys.readouterr().out.splitlines()[-1]


def test_training_ignores_evaluations_of_other_processes(run):
    other = dataclasses.replace(_make(run)[0], optimizer=None)
    other.evaluate(None, lambda: _epoch_zero().take(1))
    records = _records(run)
    assert [record.get("by") for record in records] == [None, None, "evaluation"]
    assert records[-1]["step"] == records[-2]["step"] and records[-1]["loss"] != records[-2]["loss"]
    trainer, _ = _make(run, learning_rate=0.0, settings={"train_steps": 13})
    trainer.continuous_train_and_eval(_epoch, _epoch_zero)
    expected = [record["loss"] for record in _records(run) if "by" not in record]
    assert list(trainer._early_stopping._values.values()) == expected
    assert len(expected) == 3 and len(_records(run)) == 4


def test_worker_stops_early_with_the_chief(run, monkeypatch, capsys):
    """A worker that is not the chief has no metrics, so it cannot print why training stopped."""
    monkeypatch.setattr(distribution, "is_chief", lambda strategy: False)
    (run / "metrics.jsonl").unlink()
    trainer, _ = _make(run, settings={"train_steps": 18})
    monkeypatch.setattr(trainer, "_should_stop_early", lambda: True)
    trainer.continuous_train_and_eval(_epoch, _epoch_zero)
    assert "steps=12" in capsys.readouterr().out.splitlines()[-1]


def test_signal_ends_an_evaluation_of_several_workers(run, monkeypatch):
    """With several workers, a signal ends an evaluation at once.

    The signal loses no training progress. If a worker instead waited for the end of a batch, all
    workers would have to stop at the same batch.
    """
    waits = []
    monkeypatch.setattr(
        distribution.CoordinatedStop, "stops_evaluation", lambda self: waits.append(self.waits)
    )
    monkeypatch.setattr(distribution, "is_same_on_all_workers", lambda strategy, step: True)
    for workers in (1, 2):
        monkeypatch.setattr(distribution, "num_workers", lambda strategy, n=workers: n)
        _make(run)[0].evaluate(None, _epoch_zero)
    assert set(waits[: len(waits) // 2]) == {True} and set(waits[len(waits) // 2 :]) == {False}


def test_evaluate_rejects_different_checkpoints_on_workers(finished, monkeypatch):
    monkeypatch.setattr(distribution, "is_same_on_all_workers", lambda strategy, step: step != 12)
    with pytest.raises(checkpoint.CheckpointError, match="Received: step 12 in .* another"):
        _make(finished[0])[0].evaluate(None, _epoch_zero)


def test_evaluate_requires_a_checkpoint(tmp_path):
    with pytest.raises(checkpoint.CheckpointError, match="must contain a checkpoint"):
        _make(tmp_path)[0].evaluate(None, _epoch_zero)


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    trainer, _ = _make(tmp_path, settings={"eval_every_steps": 3, "keep_checkpoints": 2})
    trainer.train(_epoch)
    assert sorted(path.name for path in tmp_path.glob("*.index")) == [
        "model.ckpt-12.index",
        "model.ckpt-9.index",
    ]


@pytest.mark.parametrize("in_background", [False, True])
def test_non_finite_loss_stops_and_saves_nothing(run, monkeypatch, in_background):
    monkeypatch.setattr(distribution, "has_accelerator", lambda strategy: in_background)
    trainer, model = _make(run, settings={"train_steps": 40})
    with pytest.raises(saving.NonFiniteError) as caught:
        trainer.train(_BreakingBatches(model))
    message = str(caught.value)
    assert "\n" not in message
    assert re.search(r"Received: loss=nan at step 16\.", message)
    assert "learning_rate" in message and "model.ckpt-12" in message
    saved = sorted(path.name for path in run.glob("*.index"))
    assert saved == ["model.ckpt-12.index", "model.ckpt-6.index"]


class _BreakingBatches:
    """A callable that makes epochs of 5 batches, and sets weights to NaN in the fourth epoch."""

    def __init__(self, model):
        self._model = model

    def __call__(self, number):
        if number >= 3:
            table = self._model.table
            table.assign(np.full(table.shape, np.nan, "float32"))
        return toy.dataset(seed=number)


def test_non_finite_weights_after_a_finite_loss_are_not_saved(tmp_path):
    trainer, model = _make(tmp_path, learning_rate=float("inf"), settings={"train_steps": 1})
    with pytest.raises(saving.NonFiniteError, match="at step 1"):
        trainer.train(_epoch)
    assert not list(tmp_path.glob("*.index"))


@pytest.mark.parametrize(
    "number, code",
    [(signal.SIGINT, 130), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow)],
)
def test_signal_saves_and_explains_how_to_resume(tmp_path, number, code):
    trainer, _ = _make(tmp_path, settings={"train_steps": 1000, "eval_every_steps": 1000})
    # The test sets a handler, because the process may ignore the signal, as under nohup.
    before = signal.signal(number, signal.default_int_handler)

    def epochs(epoch):
        if epoch == 2:
            os.kill(os.getpid(), number)
        return toy.dataset(seed=epoch)

    try:
        with pytest.raises(interruption.Interrupted, match="Run the same command again") as caught:
            trainer.train(epochs)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert caught.value.exit_code == code
    assert "step 11" in str(caught.value)
    assert (tmp_path / "model.ckpt-11.index").exists()


def test_signal_before_the_first_update_ends_training(tmp_path):
    trainer, _ = _make(tmp_path, settings={"train_steps": 1000})

    def epochs(epoch):
        os.kill(os.getpid(), signal.SIGTERM)
        return toy.dataset(seed=epoch)

    with pytest.raises(interruption.StoppedBySignal), interruption.RaiseOnSignal():
        trainer.train(epochs)
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("made_anew", [False, True])
def test_training_ends_if_the_folder_is_removed(tmp_path, made_anew):
    output_dir = tmp_path / "run"
    output_dir.mkdir()
    trainer, model = _make(output_dir)

    def epochs(epoch):
        if epoch == 2:  # this epoch is between the checkpoints of steps 6 and 12
            shutil.rmtree(output_dir)
            if made_anew:
                output_dir.mkdir()
                (output_dir / "hparams.json").touch()
        return toy.dataset(num_batches=4, seed=epoch)

    with pytest.raises(saving.FolderLost, match="up to step 12 are lost"):
        trainer.continuous_train_and_eval(epochs, toy.dataset)
    assert made_anew == os.path.exists(output_dir)
    if made_anew:
        assert os.listdir(output_dir) == ["hparams.json"]


def test_ctrl_c_during_evaluation_saves(tmp_path):
    trainer, _ = _make(tmp_path)

    def eval_dataset():
        os.kill(os.getpid(), signal.SIGINT)
        return toy.dataset()

    with pytest.raises(interruption.Interrupted, match="stopped at step 6"):
        trainer.continuous_train_and_eval(_epoch, eval_dataset)
    assert (tmp_path / "model.ckpt-6.index").exists()


@pytest.mark.slow
def test_ctrl_c_stops_evaluate(tmp_path):
    _make(tmp_path, settings={"train_steps": 1})[0].train(_epoch)
    trainer, _ = _make(tmp_path)

    def eval_dataset():
        os.kill(os.getpid(), signal.SIGTERM)
        return toy.dataset()

    with pytest.raises(interruption.Interrupted, match="stopped during the evaluation") as caught:
        trainer.evaluate(_epoch, eval_dataset)
    assert caught.value.exit_code == 143


def test_empty_datasets_are_rejected(tmp_path):
    trainer, _ = _make(tmp_path)
    with pytest.raises(evaluation.EmptyDatasetError, match="^The training data must have"):
        trainer.train(lambda epoch: toy.dataset(num_batches=0))
    trainer, _ = _make(tmp_path, settings={"train_steps": 1})
    with pytest.raises(evaluation.EmptyDatasetError, match="^The evaluation data must have"):
        trainer.continuous_train_and_eval(_epoch, lambda: toy.dataset(num_batches=0))


def test_eval_steps_limits_the_evaluation(run):
    trainer, _ = _make(run, settings={"eval_steps": 2})
    taken = []

    def eval_dataset():
        return toy.dataset().map(lambda *batch: (tf.py_function(note, [], []), batch)[1])

    def note():
        taken.append(1)

    trainer.evaluate(None, eval_dataset)
    assert 2 <= len(taken) <= 3  # The dataset may read one batch ahead.


def test_decode_settings_limit_the_examples(run):
    trainer, _ = _make(
        run,
        decode_settings=decode_hparams.parse("batch_size=3,num_samples=7"),
    )
    results = trainer.evaluate_and_decode(None, _epoch_zero)
    assert results["decode/num_samples"] == 7


def test_feature_metrics_are_reported(run):
    """An evaluation applies `finish` and `summarize`, and omits a metric whose count is 0."""

    def sources(logits, targets, features):
        real = tf.cast(features["inputs"] != 0, tf.float32)
        return tf.reduce_sum(real), tf.constant(1.0)

    def nothing(logits, targets, features):
        return tf.constant(0.0), tf.constant(0.0)

    trainer, _ = _make(
        run,
        feature_metrics={
            "accuracy/sources": features_lib.FeatureMetric(sources, lambda mean: mean + 0.5),
            "perplexity": features_lib.FeatureMetric(nothing),
        },
        summarize=lambda results: {"error": 1.0 - results["accuracy"]},
    )
    batches = list(toy.dataset(seed=99))
    counted = np.mean([np.count_nonzero(features["inputs"]) for features, _ in batches])
    results = trainer.evaluate(None, lambda: toy.dataset(seed=99))
    assert results["accuracy/sources"] == pytest.approx(counted + 0.5)
    assert "perplexity" not in results
    assert results["error"] == 1.0 - results["accuracy"]


def test_free_decoding_is_scored_as_text(run):
    seen = {}

    def score(sources, references, hypotheses):
        seen.update(sources=sources, references=references, hypotheses=hypotheses)
        return {
            "exact": float(np.mean([a == b for a, b in zip(references, hypotheses, strict=True)]))
        }

    trainer, _ = _make(run, score=score)
    results = trainer.evaluate_and_decode(None, lambda: toy.dataset(seed=99))
    assert results["decode/exact"] == results["decode/accuracy_per_sequence"]
    assert len(seen["sources"]) == len(seen["hypotheses"]) == results["decode/num_samples"]
    assert seen["references"][0] and isinstance(seen["references"][0], str)


def test_packed_sequences_are_decoded_separately(run):
    seen = {}

    def score(sources, references, hypotheses):
        seen.update(sources=sources, references=references, hypotheses=hypotheses)
        return {"bleu": 12.345}

    texts = [[2, 3, 1], [4, 1], [5, 6, 7, 1], [3, 1]]
    rows = packing.pack([{"inputs": ids, "targets": ids} for ids in texts], packed_length=5)
    rows = [{name: tf.constant([ids]) for name, ids in row.items()} for row in rows]
    assert len(rows) == 3
    spec = {name: tf.TensorSpec((None, None), tf.int32) for name in rows[0]}

    def packed():
        signature = (spec, spec["targets"])
        return tf.data.Dataset.from_generator(
            lambda: ((row, row["targets"]) for row in rows), output_signature=signature
        )

    trainer, _ = _make(run, score=score)
    results = trainer.evaluate_and_decode(None, packed)
    assert results["decode/num_samples"] == 4
    assert sorted(seen["references"]) == ["2 3", "3", "4", "5 6 7"]
    assert seen["sources"][0].split()[: len(seen["references"][0].split())] == (
        seen["references"][0].split()
    )


def test_result_line_shows_free_decoding_first():
    line = trainer.result_line(
        {
            "loss": 2.0,
            "accuracy": 0.5,
            "losses/training": 1.5,
            "decode/accuracy": 0.25,
            "decode/bleu": 12.345,
            "decode/accuracy/long": 0.1,
            "decode/num_samples": 12345.0,
            "steps": 3,
        }
    )
    assert line == (
        "decode/accuracy=0.25 decode/bleu=12.35 decode/num_samples=12345 "
        "accuracy=0.5 loss=2 steps=3"
    )


_SETTINGS = {"train_steps": 2, "eval_every_steps": 1}


def _train(folder, metric, decode=False, **kwargs):
    stopping = early_stopping.EarlyStopping(metric)
    trainer, _ = _make(folder, settings={**_SETTINGS, "early_stopping": stopping}, **kwargs)
    schedule = trainer.train_eval_and_decode if decode else trainer.continuous_train_and_eval
    return trainer, lambda: schedule(_epoch, lambda: toy.dataset(seed=99))


@pytest.mark.parametrize("metric, decode", [("acuracy", False), ("decode/blue", True)])
def test_unknown_metric_is_rejected_before_training(tmp_path, metric, decode):
    trainer, run = _train(tmp_path, metric, decode)
    expected = f"must be one of the results of an evaluation: .*accuracy.*Received: '{metric}'"
    with pytest.raises(early_stopping.MetricError, match=expected):
        run()
    assert int(trainer.optimizer.iterations) == 0
    assert not list(tmp_path.glob("model.ckpt*"))


def test_metric_names_are_found_with_one_batch(tmp_path, monkeypatch):
    """The trainer processes one batch to find the names that `summarize` and `score` add.

    The trainer knows the names of all other metrics without an evaluation.
    """
    looks, plain = [], evaluation.Evaluator.__call__

    def evaluate(self, dataset, *args):
        looks.append(sum(1 for _ in dataset))
        return plain(self, dataset, *args)

    monkeypatch.setattr(evaluation.Evaluator, "__call__", evaluate)
    for metric in ("mean_error", "decode/bleu", "accuracy"):
        folder = tmp_path / metric.replace("/", "_")
        folder.mkdir()
        trainer, run = _train(
            folder,
            metric,
            decode=True,
            summarize=lambda results: {"mean_error": 1 - results["accuracy"]},
            score=lambda sources, references, hypotheses: {"bleu": 1.0},
        )
        run()
        assert int(trainer.optimizer.iterations) == 2
    whole = sum(1 for _ in toy.dataset(seed=99))
    assert looks == [1, whole, whole, whole, whole, whole, whole]


def _best_record(path, metric):
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return max(records, key=lambda record: (record[metric], -record["step"]))


def test_best_holds_the_weights_of_the_best_evaluation(tmp_path):
    # The model improves up to step 6. Then `_worse_after_the_sixth` makes the weights worse.
    stopping = early_stopping.EarlyStopping("accuracy")
    trainer, _ = toy.make_trainer(
        tmp_path, dropout=0.0, train_steps=12, eval_every_steps=3, early_stopping=stopping
    )
    trainer.continuous_train_and_eval(_worse_after_the_sixth(trainer), toy.eval_dataset)
    best = _best_record(tmp_path, "accuracy")
    assert best["step"] == 6
    names = sorted(path.name for path in (tmp_path / "best").iterdir())
    assert names == ["checkpoint", "model.ckpt-6.data-00000-of-00001", "model.ckpt-6.index"]

    other, model = toy.make_trainer(tmp_path / "best", seed=5)
    assert other.evaluate(None, toy.eval_dataset)["accuracy"] == best["accuracy"]
    weights = checkpoint.read_weights(str(tmp_path / "model.ckpt-6"))
    np.testing.assert_array_equal(model.table.numpy(), weights["embedding_table"])


def _worse_after_the_sixth(trainer):
    """Return a function that makes epochs of three batches.

    The call for epoch 2, after step 6, multiplies the weights of the head by -10.
    """

    def epoch(number):
        if number == 2:
            head = trainer.model.head.kernel
            head.assign(-10.0 * head)
        return toy.dataset(seed=number).take(3)

    return epoch


def test_failed_save_of_best_weights_is_reported(tmp_path, capsys):
    (tmp_path / "best").write_text("a file, not a folder")
    trainer.save_best(str(tmp_path), toy.ToyModel(), 3)
    assert "The best weights could not be saved to" in capsys.readouterr().out


def test_best_does_not_depend_on_another_run_with_the_same_settings(tmp_path):
    """The first run reaches a lower loss, because the second run trains only three steps."""
    stopping = early_stopping.EarlyStopping()
    for name, steps in (("first", 12), ("second", 3)):
        folder = tmp_path / name
        folder.mkdir()
        trainer, _ = toy.make_trainer(folder, train_steps=steps, early_stopping=stopping)
        trainer.continuous_train_and_eval(toy.epoch, toy.eval_dataset)
    assert (folder / "best" / "model.ckpt-3.index").exists()


def test_resumed_run_saves_missing_best_weights(tmp_path):
    still = {"learning_rate": 0.0}  # All evaluations are equal, so the last evaluation is the best.
    first, _ = toy.make_trainer(tmp_path, train_steps=6, **still)
    first.continuous_train_and_eval(toy.epoch, toy.eval_dataset)
    for path in (tmp_path / "best").iterdir():
        path.unlink()
    second, model = toy.make_trainer(tmp_path, train_steps=6, **still)
    second.continuous_train_and_eval(toy.epoch, toy.eval_dataset)
    assert (tmp_path / "best" / "model.ckpt-6.index").exists()


def test_resumed_run_notes_best_weights_of_another_metric(tmp_path, capsys):
    """According to the other metric, step 3 is the best. Only the weights of step 6 are saved."""
    still = {"learning_rate": 0.0, "eval_every_steps": 3, "train_steps": 6}
    first, _ = toy.make_trainer(tmp_path, **still)
    first.continuous_train_and_eval(toy.epoch, toy.eval_dataset)
    path = tmp_path / "metrics.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records = [{**record, "other": -record["step"]} for record in records]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    for metric, notes in (("other", 1), ("loss", 0)):
        stopping = early_stopping.EarlyStopping(metric)
        second, _ = toy.make_trainer(tmp_path, early_stopping=stopping, **still)
        second.evaluator.summarize = lambda results: {"other": -9.0}
        capsys.readouterr()
        second.continuous_train_and_eval(toy.epoch, toy.eval_dataset)
        lines = [line for line in capsys.readouterr().out.splitlines() if "best contains" in line]
        assert len(lines) == notes
        assert not notes or "of step 6" in lines[0] and "step 3 has" in lines[0]
