import numpy as np
import pytest

from tests.training import toy
from ut_keras.checkpoints import checkpoint
from ut_keras.training import train_loop


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
