import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from tests.models import examples
from ut_keras import hparam_schema
from ut_keras.layers.position import randomized_position, timing_signal

S, D, L, M = 4, 6, 40, 8


def _layer(dtype="float32"):
    return randomized_position.RandomizedPosition(L, M, dtype=dtype)


def test_layer_behaviors():
    layer = layer_checks.check_layer(_layer, {"x": layer_checks.normal(2, S, D)}, num_weights=0)
    assert layer.get_config()["positions"] == L


def test_matches_reference():
    """At inference, positions have constant distances. In training, they are sampled."""
    layer, x = _layer(), layer_checks.normal(2, S, D)
    expected = x + timing_signal.sinusoid(tf.range(0, 5 * S, 5), D).numpy()
    np.testing.assert_allclose(layer(x), expected, atol=1e-6)
    np.testing.assert_allclose(layer(x[:, 2:3], tf.constant([2])), expected[:, 2:3], atol=1e-6)
    layer.sample_positions = lambda length: tf.constant([1, 2, 20, 39])
    signals = timing_signal.sinusoid([1, 2, 20, 39], D).numpy()
    np.testing.assert_allclose(layer(x, training=True), x + signals, atol=1e-6)
    packed = np.array([[0, 1, 2, 0], [0, 0, 1, 2]])
    wanted = x + signals[packed]
    np.testing.assert_allclose(layer(x, packed, training=True), wanted, atol=1e-6)


def _sample_many(layer, length, rounds):
    """Return the sampled positions, int [rounds, length]."""

    @tf.function
    def sample():
        none = tf.zeros([rounds], tf.int32)
        return tf.map_fn(
            lambda _: layer.sample_positions(tf.constant(length)), none, parallel_iterations=1
        )

    return sample().numpy()


def test_sampled_positions_are_uniform():
    """Each subset of S out of L positions has the same probability."""
    layer, rounds = _layer(), 2000
    sampled = _sample_many(layer, S, rounds)
    assert sampled.min() >= 0 and sampled.max() < L and np.all(np.diff(sampled) > 0)
    mean = (np.arange(S) + 1) * (L + 1) / (S + 1) - 1
    np.testing.assert_allclose(sampled.mean(0), mean, atol=5 * L / 4 / rounds**0.5)
    counts = np.bincount(sampled.ravel(), minlength=L) / rounds
    np.testing.assert_allclose(counts, S / L, atol=5 * (S / L / rounds) ** 0.5)
    np.testing.assert_array_equal(layer.sample_positions(tf.constant(50)), np.arange(50))


def test_randomized_position_rejects_bad_arguments():
    with pytest.raises(ValueError, match="max_length must .*max_length=5, positions=4"):
        randomized_position.RandomizedPosition(4, 5)
    with pytest.raises(
        hparam_schema.HParamError, match="Received: add_position_timing_signal=True"
    ):
        examples.make("universal", "pos=randomized")
    with pytest.raises(
        hparam_schema.HParamError, match="max_length must .*Received: .*max_length=300"
    ):
        examples.make("transformer", "pos=randomized,pos_randomized_range=200,max_length=300")


def test_model_samples_positions_only_in_training():
    without = "attention_dropout=0,relu_dropout=0,layer_prepostprocess_dropout=0,max_length=30"
    model = examples.make("transformer", f"pos=randomized,{without}")
    features = examples.features("transformer")
    first, second = (model(features, training=True) for _ in range(2))
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(model(features), model(features))
