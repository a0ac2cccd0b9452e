"""A resumed run samples the same numbers of steps and initial states as an uninterrupted run."""

import keras
import numpy as np
import pytest

from tests.training import toy
from ut_keras import hparams, models, optimizers
from ut_keras.training import distribution

_SETTINGS = (
    "hidden_size=8,filter_size=8,num_heads=2,num_rec_steps=4,recurrence_input_injection=concat,"
    "recurrence_initial_state=normal,recurrence_fixed_point_loss_weight=0.1,"
    "num_rec_steps_sampling='lognormal_poisson(mean=2, sigma=0.5)'"
)


def _train(output_dir, train_steps, seed):
    """Train to step `train_steps`, and return the model and the values of its variables."""
    keras.utils.set_random_seed(seed)
    strategy = distribution.get_strategy(devices=["CPU:0"])
    sizes = {"inputs": toy.VOCAB_SIZE, "targets": toy.VOCAB_SIZE}
    with strategy.scope():
        hp = hparams.get("universal_transformer_tiny", _SETTINGS)
        model = models.get("universal_transformer_encoder", hp, vocab_sizes=sizes)
        optimizer = optimizers.Adam(0.01)
    settings = {"train_steps": train_steps, "eval_every_steps": 100, "log_every_steps": 100}
    toy.trainer_of(model, optimizer, strategy, output_dir, settings).train(toy.epoch)
    return model, [variable.numpy() for variable in model.variables]


@pytest.mark.slow
def test_resumed_run_equals_uninterrupted_run(tmp_path):
    for name in ("at_once", "resumed"):
        (tmp_path / name).mkdir()
    model, wanted = _train(tmp_path / "at_once", 6, seed=1)
    _train(tmp_path / "resumed", 3, seed=1)
    resumed, found = _train(tmp_path / "resumed", 6, seed=2)
    for part in ("initial_state", "steps_sampling"):
        seed, other = (getattr(m.encoder.depth, part).seed_generator for m in (model, resumed))
        np.testing.assert_array_equal(seed.state, other.state)
        assert seed.state[1] >= 6
    for value, other in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(other, value)
