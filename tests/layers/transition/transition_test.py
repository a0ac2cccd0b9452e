import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.basic import dropout
from ut_keras.layers.transition import transition

REAL = np.array([[True, True, True], [True, True, False]])


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: transition.FeedForward(16, 4, 0.1, (1,), dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4), "padding_mask": REAL},
        num_weights=4,
    )


@pytest.mark.parametrize("zero_at_padding", [True, False])
def test_matches_reference(zero_at_padding):
    layer = transition.FeedForward(16, 4, zero_at_padding=zero_at_padding)
    layer.build((None, None, 4))
    layer_checks.shake(layer)
    x = layer_checks.normal(2, 3, 4)
    w1, b1, w2, b2 = layer.get_weights()
    expected = np.maximum(x @ w1 + b1, 0) @ w2 + b2
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)
    if zero_at_padding:
        expected[~REAL] = 0
    np.testing.assert_allclose(layer(x, padding_mask=REAL), expected, atol=1e-5)


def test_dropout_follows_the_relu():
    # Each output is a hidden unit of 1 plus a bias of 3. Dropout makes the hidden unit 0 or 2.
    layer = transition.FeedForward(50, 50, dropout_rate=0.5)
    layer.build((None, None, 50))
    layer.set_weights([np.eye(50), np.zeros(50), np.eye(50), np.full(50, 3.0)])
    x = np.ones((1, 20, 50), "float32")
    assert set(np.unique(layer(x, training=True))) == {3.0, 5.0}
    assert set(np.unique(layer(x, training=False))) == {4.0}


def test_xla_gives_the_gradient_of_relu_and_dropout():
    """Under XLA, the layer has its own gradient, which reads only the result of dropout."""
    layer = dropout.Dropout(0.3, seed=5)
    x = tf.constant(layer_checks.normal(20, 30))

    def gradient(function):
        layer.seed_generator.state.assign([5, 0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x, output_gradients=tf.sin(y) + 2)

    @tf.function(autograph=False, jit_compile=True)
    def run():
        own = gradient(layer.after_relu)
        return own, gradient(lambda x: layer(tf.nn.relu(x), training=True))

    for found, expected in zip(*run(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert 0.2 < np.mean(np.asarray(found) > 0) < 0.5


def test_xla_drops_the_hidden_units_of_training():
    layer = transition.FeedForward(50, 50, dropout_rate=0.5)
    layer.build((None, None, 50))
    layer.set_weights([-np.eye(50), np.full(50, 2.0), np.eye(50), np.full(50, 3.0)])
    x = tf.ones((1, 20, 50))
    run = tf.function(layer, autograph=False, jit_compile=True)
    assert set(np.unique(run(x, training=True))) == {3.0, 5.0}
    assert set(np.unique(run(x, training=False))) == {4.0}
    assert set(np.unique(run(3 * x, training=True))) == {3.0}  # the ReLU of -1
