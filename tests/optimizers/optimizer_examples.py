"""Variables, gradients and functions that apply them, for the tests of the optimizers."""

import keras
import numpy as np
import tensorflow as tf

MODES = ("eager", "graph", "xla")
STEPS = 6
SHAPES = {"kernel": (3, 4), "weights": (7, 2), "depthwise": (3, 1, 2, 1), "bias": (4,)}


def values(seed):
    random = np.random.RandomState(seed)
    return {name: random.randn(*shape).astype("float32") for name, shape in SHAPES.items()}


def gradients():
    """Return a list with one dict {name: gradient} for each step."""
    return [values(1 + step) for step in range(STEPS)]


def train(optimizer, mode="graph", batches=None):
    """Return {name: value} of the variables after one update for each batch.

    The default of `batches` is `gradients()`.
    """
    variables = [keras.Variable(value, name=name) for name, value in values(0).items()]
    optimizer.build(variables)
    apply = optimizer.apply
    if mode != "eager":
        apply = tf.function(
            lambda batch: optimizer.apply(batch), jit_compile=mode == "xla", autograph=False
        )
    for batch in gradients() if batches is None else batches:
        apply([tf.constant(value) for value in batch.values()])
    return {variable.name: variable.numpy() for variable in variables}


def assert_same(actual, expected, rtol=1e-5):
    assert set(actual) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=rtol, atol=1e-6, err_msg=name)
