"""A resumed run in segments equals an uninterrupted run."""

import keras
import numpy as np
import pytest

from tests.training import toy
from ut_keras import hparams, models, optimizers
from ut_keras.training import distribution

_SETTINGS = (
    "hidden_size=8,filter_size=8,num_heads=2,num_rec_steps=2,act_max_steps=2,recurrence_segments=2,"
    "recurrence_input_injection=concat,learning_rate_schedule=constant*linear_decay,"
    "learning_rate_constant=0.01,learning_rate_decay_steps=6"
)


def _train(output_dir, settings, train_steps, seed):
    """Train to step `train_steps` of 6, and return the model and the optimizer."""
    keras.utils.set_random_seed(seed)
    strategy = distribution.get_strategy(devices=["CPU:0"])
    sizes = {"inputs": toy.VOCAB_SIZE, "targets": toy.VOCAB_SIZE}
    with strategy.scope():
        hp = hparams.get("universal_transformer_tiny", f"{_SETTINGS},{settings}")
        model = models.get("universal_transformer_encoder", hp, vocab_sizes=sizes)
        optimizer = optimizers.get(hp, train_steps=6)
    run = {"train_steps": train_steps, "eval_every_steps": 100, "log_every_steps": 100}
    toy.trainer_of(model, optimizer, strategy, output_dir, run).train(toy.epoch)
    return model, optimizer


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        "recurrence_backprop_steps=1,recurrence_initial_state=normal",
        "recurrence_type=act,act_type=q_halt",
    ],
)
def test_resumed_run_equals_uninterrupted_run(tmp_path, capsys, settings):
    """Steps count batches in checkpoints, messages and the schedule. Iterations count updates."""
    for name in ("at_once", "resumed"):
        (tmp_path / name).mkdir()
    wanted, optimizer = _train(tmp_path / "at_once", settings, 6, seed=1)
    _train(tmp_path / "resumed", settings, 3, seed=1)
    assert (tmp_path / "resumed/model.ckpt-3.index").exists()
    found, resumed = _train(tmp_path / "resumed", settings, 6, seed=2)
    assert "Resuming from step 3 in" in capsys.readouterr().out
    assert (tmp_path / "resumed/model.ckpt-6.index").exists()
    assert optimizer.iterations == resumed.iterations == 12
    assert float(keras.ops.convert_to_tensor(resumed.learning_rate)) == 0.0
    variables = zip(
        (*wanted.variables, *optimizer.variables),
        (*found.variables, *resumed.variables),
        strict=True,
    )
    for variable, other in variables:
        np.testing.assert_array_equal(other.numpy(), variable.numpy(), err_msg=variable.path)
