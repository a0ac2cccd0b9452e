"""Tests of `generate` inside a function that XLA compiles."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples

_LENGTH = 4


@pytest.mark.slow  # XLA takes long to compile the search
@pytest.mark.parametrize(
    ("kind", "beam_size", "cache"),
    [
        ("universal", 1, True),
        ("universal", 4, True),
        ("adaptive", 4, False),
        ("adaptive", 1, True),
        ("adaptive", 4, True),
    ],
)
def test_generate_under_xla_gives_the_same_ids(kind, beam_size, cache):
    model = examples.make(kind)
    rng = np.random.default_rng(4)
    for weight in model.trainable_variables:  # large weights make the outputs differ
        if len(weight.shape) > 1:
            weight.assign(rng.normal(size=weight.shape))
    inputs = tf.constant(examples.features(kind)["inputs"])
    options = {"beam_size": beam_size, "decode_length": _LENGTH, "cache": cache}
    options["return_steps"] = kind == "adaptive"
    expected = model.generate({"inputs": inputs}, **options)
    compiled = tf.function(
        lambda inputs: model.generate({"inputs": inputs}, **options),
        jit_compile=True,
        autograph=False,
    )
    found = compiled(inputs)
    length = inputs.shape[1] + _LENGTH
    assert found.ids.shape == (inputs.shape[0], beam_size, length)
    padding = length - expected.ids.shape[2]
    np.testing.assert_array_equal(found.ids, np.pad(expected.ids, [(0, 0), (0, 0), (0, padding)]))
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4)
    if kind == "adaptive":
        steps = np.pad(expected.target_steps, [(0, 0), (0, 0), (0, padding)])
        np.testing.assert_array_equal(found.target_steps, steps)
    assert len(np.unique(expected.ids[:, 0], axis=0)) > 1


def test_generate_under_xla_requires_static_shapes():
    model = examples.make("universal")
    compiled = tf.function(
        lambda inputs: model.generate({"inputs": inputs}, decode_length=_LENGTH),
        [tf.TensorSpec([None, 3], tf.int32)],
        jit_compile=True,
        autograph=False,
    )
    with pytest.raises(ValueError, match=r"inputs of a static shape .*Received: \(None, 3\), 4"):
        compiled(tf.constant([[3, 4, 1]]))
