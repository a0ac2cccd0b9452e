import numpy as np
import pytest
import tensorflow as tf

from tests.training import toy
from ut_keras.checkpoints import checkpoint
from ut_keras.training import distribution, moving_average, train_loop

_DECAY = 0.3


def test_moving_average_matches_reference():
    model = toy.ToyModel()
    average = moving_average.MovingAverage(model, distribution.get_strategy(), 0.5)
    expected = model.table.numpy().copy()
    for count in range(1, 9):
        model.table.assign(np.full(model.table.shape, count, "float32"))
        average.update(tf.constant(count))
        decay = min(0.5, (1 + count) / (10 + count))
        expected = decay * expected + (1 - decay) * count
    np.testing.assert_allclose(average.variables["embedding_table"].numpy(), expected, rtol=1e-6)


def _trainer(tmp_path, **settings):
    return toy.make_trainer(tmp_path, moving_average_decay=_DECAY, **settings)


def _newest(directory):
    reader = tf.train.load_checkpoint(str(directory))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    """Return (folder, model, results) of a run with moving averages."""
    folder = tmp_path_factory.mktemp("averaged")
    trainer, model = _trainer(folder)
    return folder, model, trainer.continuous_train_and_eval(toy.epoch, toy.eval_dataset)


def test_evaluation_uses_averages_and_training_uses_weights(averaged, tmp_path):
    plain, plain_model = toy.make_trainer(tmp_path)
    plain_results = plain.continuous_train_and_eval(toy.epoch, toy.eval_dataset)
    folder, model, results = averaged
    assert results["loss"] != plain_results["loss"]
    np.testing.assert_array_equal(model.table.numpy(), plain_model.table.numpy())

    # The folder best/ contains the averages, and --schedule=evaluate evaluates them.
    average = _newest(folder)["moving_average/embedding_table/.ATTRIBUTES/VARIABLE_VALUE"]
    best = checkpoint.read_weights(tf.train.latest_checkpoint(str(folder / "best")))
    np.testing.assert_array_equal(best["embedding_table"], average)
    assert np.abs(average - model.table.numpy()).max() > 1e-3
    assert _trainer(folder)[0].evaluate(None, toy.eval_dataset) == results


def test_warm_start_notes_averages_that_it_does_not_copy(averaged):
    folder, model, _ = averaged
    other = toy.ToyModel()
    assert "averaged weights of the checkpoint" in train_loop.warm_start(other, str(folder))
    np.testing.assert_array_equal(other.table.numpy(), model.table.numpy())
    # The weights in best/ are the averages.
    assert "averaged weights" not in train_loop.warm_start(other, str(folder / "best"))


def test_resumed_run_equals_uninterrupted_run(averaged, tmp_path):
    _trainer(tmp_path, train_steps=7)[0].train(toy.epoch)
    _trainer(tmp_path, seed=4)[0].train(toy.epoch)
    whole, parts = _newest(averaged[0]), _newest(tmp_path)
    names = [name for name in whole if name.startswith("moving_average/")]
    assert len(names) == 3
    for name in names:
        np.testing.assert_array_equal(parts[name], whole[name])


@pytest.mark.slow
def test_moving_average_can_start_in_a_resumed_run(tmp_path):
    toy.make_trainer(tmp_path, train_steps=6)[0].train(toy.epoch)
    begun = checkpoint.read_weights(str(tmp_path / "model.ckpt-6"))["embedding_table"]
    trainer, model = _trainer(tmp_path, train_steps=7)
    trainer.train(toy.epoch)
    average = trainer._average.variables["embedding_table"].numpy()
    np.testing.assert_allclose(
        average, _DECAY * begun + (1 - _DECAY) * model.table.numpy(), atol=1e-6
    )


def test_evaluation_rejects_checkpoint_without_averages(tmp_path):
    toy.make_trainer(tmp_path, train_steps=1)[0].train(toy.epoch)
    with pytest.raises(
        checkpoint.CheckpointError, match="moving_average_decay .*Received: .*/model.ckpt-"
    ):
        _trainer(tmp_path)[0].evaluate(None, toy.eval_dataset)
