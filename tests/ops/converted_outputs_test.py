"""A converted model must compute the same outputs as the model."""

import numpy as np
import pytest
import tensorflow as tf

from ut_keras.ops import converted_outputs


def _sources(generator):
    return {"source": converted_outputs.random_ids(generator, [1, 6], 9)}


def test_one_equal_source_of_three_is_sufficient():
    """With almost equal probabilities, rounding errors may change an output."""
    calls = []

    def run(inputs):
        calls.append(inputs["source"])
        return {"scores": np.float32([len(calls) < 3]), "outputs": np.int32([5])}

    def function(source):
        return {"scores": tf.constant([0.0]), "outputs": tf.constant([5])}

    converted_outputs.check("ONNX", function, run, _sources)
    assert len(calls) == 3
    assert not np.array_equal(calls[0], calls[1])
    for source in calls:
        assert source[0].tolist()[3:] == [1, 0, 0]
    with pytest.raises(ValueError, match="Received: other scores for random ids"):
        converted_outputs.check("ONNX", function, lambda x: {**run(x), "scores": [9.0]}, _sources)


def test_a_neighboring_id_is_another_output():
    """A relative tolerance would accept the id 20001 instead of 20000."""

    def function(source):
        return {"outputs": tf.constant([20_000])}

    converted_outputs.check("ONNX", function, lambda x: {"outputs": np.int32([20_000])}, _sources)
    with pytest.raises(ValueError, match="Received: other outputs for random ids"):
        converted_outputs.check(
            "ONNX", function, lambda x: {"outputs": np.int32([20_001])}, _sources
        )


def test_a_model_with_noise_is_not_compared():
    """The outputs of such a model differ in each call, so no conversion can have equal outputs."""

    def function(source):
        return {"scores": tf.random.uniform([3])}

    converted_outputs.check("ONNX", function, lambda x: {"scores": np.zeros(3)}, _sources)


def test_products_of_the_model_are_exact_in_the_comparison():
    """By default, a GPU computes products with TensorFloat-32, whose error is about 1e-3."""
    used = []

    def function(source):
        used.append(tf.config.experimental.tensor_float_32_execution_enabled())
        return {"scores": tf.constant([0.0])}

    before = tf.config.experimental.tensor_float_32_execution_enabled()
    assert before
    converted_outputs.check("ONNX", function, lambda x: {"scores": np.zeros(1)}, _sources)
    assert used == [False]
    with pytest.raises(ValueError, match="other scores"):
        converted_outputs.check("ONNX", function, lambda x: {"scores": np.ones(1)}, _sources)
    assert tf.config.experimental.tensor_float_32_execution_enabled() == before


def test_outputs_of_different_shapes_are_not_equal():
    def function(source):
        return {"scores": tf.constant([2.0, 2.0])}

    with pytest.raises(ValueError, match="other scores"):
        converted_outputs.check("ONNX", function, lambda x: {"scores": np.ones([1]) * 2}, _sources)


def test_tolerance_grows_with_the_values_but_not_with_masked_values():
    def check(expected, found):
        converted_outputs.check(
            "ONNX",
            lambda source: {"scores": tf.constant(expected)},
            lambda inputs: {"scores": np.float32(found)},
            _sources,
        )

    check([100.0, 0.0], [100.0, 0.005])  # a sum of values near 100 has this rounding error
    for largest in (1.0, -1e7):
        with pytest.raises(ValueError, match="other scores"):
            check([largest, 0.0], [largest, 0.005])


def test_random_ids_contain_padding_and_the_last_id():
    generator = np.random.default_rng(seed=0)
    ids = converted_outputs.random_ids(generator, [3, 6], 300)
    assert ids.shape == (3, 6) and ids.dtype == np.int32
    assert ids[0, 0] == ids.max() == 299
    assert [row.tolist()[3:] for row in ids[::2]] == [[1, 0, 0]] * 2  # two thirds, with EOS
    assert ids[1, 5] == 1 and ids[1].min() > 0
    assert converted_outputs.random_ids(generator, [2, 3, 3], 1).tolist() == [[[0] * 3] * 3] * 2
    small = converted_outputs.random_ids(generator, [1, 300], 4)[0, :190]
    assert set(small.tolist()) == {1, 2, 3}  # EOS also occurs before the end
