import os
import threading
import types

import numpy as np
import pytest

from tests.training import toy
from ut_keras.checkpoints import checkpoint
from ut_keras.training import distribution, progress, train_loop


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("first")
    toy.make_trainer(path, train_steps=6)[0].train(toy.epoch)
    return path


def test_profiler_writes_a_profile_of_the_given_updates(tmp_path, capsys):
    toy.make_trainer(tmp_path, profile_steps=(3, 4))[0].train(toy.epoch)
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))
    assert f"tensorboard --logdir={tmp_path}\n" in capsys.readouterr().out


def test_profiler_writes_a_profile_when_the_run_ends(tmp_path):
    toy.make_trainer(tmp_path, profile_steps=(11, 100))[0].train(toy.epoch)
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))


def test_profiler_is_off_by_default(run_dir):
    assert not (run_dir / "plugins").exists()


@pytest.mark.parametrize("name", ["", "model.ckpt-6"])
def test_warm_start_copies_the_weights_of_another_run(run_dir, name):
    model = toy.ToyModel()
    line = train_loop.warm_start(model, str(run_dir / name))
    weights = checkpoint.read_weights(str(run_dir / "model.ckpt-6"))
    assert line == f"Warm start: 3 of 3 variables from {run_dir / 'model.ckpt-6'}"
    for path, variable in checkpoint.model_variables(model).items():
        np.testing.assert_array_equal(variable.numpy(), weights[path])


def test_warm_start_reports_variables_that_do_not_match(run_dir):
    model = toy.ToyModel(vocab_size=9)
    before = model.head.bias.numpy()
    with pytest.raises(
        checkpoint.CheckpointError, match="warm_start_from .*such as embedding_table"
    ):
        train_loop.warm_start(model, str(run_dir))
    np.testing.assert_array_equal(model.head.bias.numpy(), before)

    class Wider(toy.ToyModel):
        def __init__(self):
            super().__init__()
            self.extra = self.add_weight(shape=(2,), name="extra")

    line = train_loop.warm_start(Wider(), str(run_dir))
    assert line.startswith("Warm start: 3 of 4 variables")
    assert line.endswith(": extra (2,) (missing)")


def test_warm_start_rejects_a_folder_without_checkpoint(tmp_path):
    with pytest.raises(checkpoint.CheckpointError, match="warm_start_from must be"):
        train_loop.warm_start(toy.ToyModel(), str(tmp_path))
    with pytest.raises(checkpoint.CheckpointError, match="must be readable"):
        train_loop.warm_start(toy.ToyModel(), str(tmp_path / "model.ckpt-3"))


def test_warm_start_applies_only_to_a_new_run(run_dir, tmp_path, capsys):
    arguments = {"warm_start_from": str(run_dir), "learning_rate": 0.0, "seed": 8}
    trainer, model = toy.make_trainer(tmp_path, train_steps=2, **arguments)
    trainer.train(toy.epoch)
    assert "Warm start: 3 of 3" in capsys.readouterr().out
    weights = checkpoint.read_weights(str(run_dir / "model.ckpt-6"))
    np.testing.assert_array_equal(model.table.numpy(), weights["embedding_table"])
    trainer, _ = toy.make_trainer(tmp_path, train_steps=3, **arguments)
    trainer.train(toy.epoch)
    assert int(trainer.optimizer.iterations) == 3
    assert "Warm start" not in capsys.readouterr().out


def test_training_on_an_accelerator_does_not_wait_for_results(tmp_path, monkeypatch):
    """The results of step 4 are not read before update 6 starts."""
    update_6_started = threading.Event()
    read = progress.Progress.read
    written = {}

    def read_late(self, *taken):
        assert update_6_started.wait(5)
        return read(self, *taken)

    def epoch(number):  # an epoch has 5 batches
        if number:
            update_6_started.set()
        return toy.epoch(number)

    def write(self, step, scalars, ponder):
        timed = ("steps_per_second", "tokens_per_second", "input_wait")
        values = {name: value for name, value in scalars.items() if name not in timed}
        written[self.output_dir].append((step, values, {k: v[0].sum() for k, v in ponder.items()}))

    monkeypatch.setattr(progress.Progress, "read", read_late)
    monkeypatch.setattr("ut_keras.training.summaries.Summaries.write_training", write)
    weights = []
    for on_accelerator in (True, False):
        monkeypatch.setattr(distribution, "has_accelerator", lambda _, found=on_accelerator: found)
        folder = str(tmp_path / f"{on_accelerator}")
        os.mkdir(folder)
        written[folder] = []
        trainer, model = toy.make_trainer(folder, log_every_steps=4)
        trainer.train(epoch)
        weights.append(model.table.numpy())
    late, at_once = written.values()
    assert [step for step, *_ in late] == [4, 8, 12]
    assert late == at_once
    np.testing.assert_array_equal(*weights)


def test_only_gpus_and_tpus_are_accelerators():
    assert not distribution.has_accelerator(distribution.get_strategy(devices=["CPU:0"]))
    devices = ("/job:localhost/replica:0/task:0/device:GPU:0",)
    strategy = types.SimpleNamespace(extended=types.SimpleNamespace(worker_devices=devices))
    assert distribution.has_accelerator(strategy)
