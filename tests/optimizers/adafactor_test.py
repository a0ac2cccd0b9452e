import json

import keras
import numpy as np
import pytest

from tests.optimizers import optimizer_examples as examples
from ut_keras.optimizers import adafactor


def _rms(x):
    return np.sqrt(np.mean(x**2))


def _reference(
    learning_rate=0.05,
    beta_1=0.0,
    decay_type="pow",
    beta_2=0.999,
    memory_exponent=0.8,
    clipping_threshold=1.0,
    factored=True,
    multiply_by_parameter_scale=True,
    table_shards=1,
):
    """Compute algorithm 4 of Shazeer and Stern 2018, with one variable for each shard."""
    pieces = {}
    for name, shape in examples.SHAPES.items():
        cuts = np.array_split(np.arange(shape[0]), table_shards if name == "weights" else 1)
        pieces.update({(name, n): rows for n, rows in enumerate(cuts) if rows.size})
    weights = {
        (name, n): examples.values(0)[name][rows].astype("float64")
        for (name, n), rows in pieces.items()
    }
    row, column, full, mean = ({key: 0.0 for key in pieces} for _ in range(4))
    for step, batch in enumerate(examples.gradients()):
        t = step + 1.0
        decay = 1 - t**-memory_exponent
        if decay_type == "adam":
            decay = beta_2 * (1 - beta_2 ** (t - 1)) / (1 - beta_2**t)
        for (name, n), rows in pieces.items():
            key, gradient = (name, n), batch[name][rows].astype("float64")
            square = gradient**2 + 1e-30
            if factored and gradient.ndim > 1:
                row[key] = decay * row[key] + (1 - decay) * square.mean(-1)
                column[key] = decay * column[key] + (1 - decay) * square.mean(-2)
                outer = row[key][..., None] * column[key][..., None, :]
                velocity = outer / row[key].mean(-1)[..., None, None]
            else:
                velocity = full[key] = decay * full[key] + (1 - decay) * square
            update = gradient / np.sqrt(velocity)
            if clipping_threshold is not None:
                update /= max(1.0, _rms(update) / clipping_threshold)
            if multiply_by_parameter_scale:
                update *= max(1e-3, _rms(weights[key]))
            mean[key] = beta_1 * mean[key] + (1 - beta_1) * learning_rate * update
            weights[key] -= mean[key]
    return {
        name: np.concatenate([weights[key] for key in weights if key[0] == name])
        for name in examples.SHAPES
    }


@pytest.mark.parametrize("mode", examples.MODES)
@pytest.mark.parametrize("table_shards", [1, 3, 16])
def test_matches_reference(mode, table_shards):
    optimizer = adafactor.Adafactor(0.05, table_shards=table_shards)
    examples.assert_same(
        examples.train(optimizer, mode), _reference(table_shards=table_shards), rtol=1e-4
    )


@pytest.mark.parametrize(
    "switches",
    [
        {"beta_1": 0.9},
        {"decay_type": "adam"},
        {"decay_type": "adam", "beta_2": 0.9, "beta_1": 0.5},
        {"memory_exponent": 0.5},
        {"clipping_threshold": None},
        {"clipping_threshold": 0.5},
        {"factored": False},
        {"factored": False, "beta_1": 0.9, "table_shards": 3},
        {"multiply_by_parameter_scale": False, "table_shards": 3},
    ],
    ids=str,
)
def test_options_match_reference(switches):
    expected = _reference(**switches)
    actual = examples.train(adafactor.Adafactor(0.05, **switches))
    examples.assert_same(actual, expected, rtol=1e-4)
    plain = _reference()
    assert max(np.abs(expected[name] - plain[name]).max() for name in plain) > 1e-4


def test_moments_are_factored():
    optimizer = adafactor.Adafactor(0.05, table_shards=3)
    examples.train(optimizer)
    shapes = {
        path: [tuple(slot.shape) for slot in slots] for path, slots in optimizer.slots().items()
    }
    assert shapes == {
        "kernel": [(3,), (4,)],
        "weights": [(7,), (3, 2)],
        "depthwise": [(3, 1, 2), (3, 1, 1)],
        "bias": [(4,)],
    }


def test_zero_weights_are_updated():
    variable = keras.Variable(np.zeros((2, 3), "float32"))
    optimizer = adafactor.Adafactor(0.1)
    optimizer.build([variable])
    optimizer.apply([np.ones((2, 3), "float32")])
    np.testing.assert_allclose(variable.numpy(), -1e-4, rtol=1e-5)


def test_zero_gradient_changes_nothing():
    batches = [{name: 0.0 * value for name, value in examples.values(0).items()}] * 2
    examples.assert_same(
        examples.train(adafactor.Adafactor(0.1), batches=batches), examples.values(0)
    )


def test_config_round_trip():
    optimizer = adafactor.Adafactor(0.1, 0.9, "adam", 0.99, 0.7, None, False, False, 16)
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(optimizer)))
    restored = keras.saving.deserialize_keras_object(config)
    assert isinstance(restored, adafactor.Adafactor)
    assert restored.get_config() == optimizer.get_config()


def test_unknown_decay_type():
    with pytest.raises(ValueError, match="decay_type must be 'pow' or 'adam'. Received: 'exp'"):
        adafactor.Adafactor(decay_type="exp")
