import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.position import timing_signal
from ut_keras.layers.transition import sru

B, S, D, N = 3, 6, 4, 3


def _reference(layer, x):
    """Compute the recurrence one position after the other."""
    for kernel, bias in zip(layer.get_weights()[::2], layer.get_weights()[1::2], strict=True):
        u, f, r = np.split(x @ kernel + bias, 3, axis=-1)
        f, r = 1 / (1 + np.exp(-f)), 1 / (1 + np.exp(-r))
        c, out = np.zeros((B, D)), []
        for i in range(x.shape[1]):
            c = f[:, i] * c + (1 - f[:, i]) * u[:, i]
            out.append(r[:, i] * c + (1 - r[:, i]) * x[:, i])
        x = np.stack(out, axis=1)
    return x


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: sru.SRU(dtype=dtype), {"x": layer_checks.normal(B, S, D)}, num_weights=4
    )


@pytest.mark.parametrize("num_layers", [1, 2])
def test_matches_reference(num_layers):
    layer = sru.SRU(num_layers)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    x = layer_checks.normal(B, S, D)
    np.testing.assert_allclose(layer(x), _reference(layer, x), atol=1e-5)


@pytest.mark.parametrize("length", [1, 5, 8])
def test_xla_gives_the_same_result_and_gradients_without_a_loop(length):
    layer = sru.SRU()
    layer.build((None, None, D))
    layer_checks.shake(layer)

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        return [y, *tape.gradient(y, [x, *layer.trainable_weights])]

    x = tf.constant(layer_checks.normal(B, length, D))
    compiled = tf.function(run, autograph=False, jit_compile=True)
    operations = compiled.get_concrete_function(x).graph.as_graph_def().node
    assert not any("While" in node.op for node in operations)
    for found, want in zip(compiled(x), run(x), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_is_causal():
    layer = sru.SRU()
    x = layer_checks.normal(B, S, D)
    changed = x.copy()
    changed[:, 3:] += 5.0
    first, second = layer(x), layer(changed)
    np.testing.assert_array_equal(first[:, :3], second[:, :3])
    assert np.all(np.abs(first[:, 3:] - second[:, 3:]).max(-1) > 1e-3)


def test_long_sequences_give_finite_output():
    layer = sru.SRU()
    out = layer(10 * layer_checks.normal(1, 500, D))
    assert np.isfinite(out).all()


def test_timing_and_sru_applies_both():
    layer = sru.TimingAndSRU(timing_signal.StepTimingSignal(N), sru.SRU())
    layer.build((None, None, D))
    x = layer_checks.normal(B, S, D)
    signals = layer.prepare(tf.range(S))
    for step in range(N):
        expected = layer.sru(layer.timing(x, tf.constant(step), signals))
        np.testing.assert_array_equal(layer(x, tf.constant(step), signals), expected)
    again = sru.TimingAndSRU.from_config(layer.get_config())
    assert again.timing.num_steps == N and again.sru.num_layers == 2


def test_sru_rejects_zero_layers():
    with pytest.raises(ValueError, match="num_layers must be at least 1. Received: 0"):
        sru.SRU(0)
