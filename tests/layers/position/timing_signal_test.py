import math

import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.position import timing_signal

B, S, D, N = 3, 5, 6, 4


def _numpy_sinusoid(positions, channels):
    """Compute the signal for one position and one channel at a time.

    With n = channels // 2, column i < n is sin(p / 10000^(i / (n - 1))). Column n + i is the cosine
    of the same angle.
    """
    half = channels // 2
    signal = np.zeros((len(positions), channels))
    for row, position in enumerate(positions):
        for i in range(half):
            angle = position / 10000 ** (i / max(half - 1, 1))
            signal[row, i], signal[row, half + i] = math.sin(angle), math.cos(angle)
    return signal


@pytest.mark.parametrize("channels", [1, 2, 3, 8, 9])
def test_sinusoid_matches_reference(channels):
    got = timing_signal.sinusoid(tf.range(7), channels)
    np.testing.assert_allclose(got, _numpy_sinusoid(range(7), channels), atol=1e-5)


def test_sinusoid_of_odd_width_ends_with_zero():
    assert not np.any(timing_signal.sinusoid(tf.range(7), 9)[:, -1])


def _call_position(layer, x, training=None):
    del training
    return layer(x)


def test_sinusoid_position_matches_reference():
    layer = layer_checks.check_layer(
        lambda dtype: timing_signal.SinusoidPosition(dtype=dtype),
        {"x": layer_checks.normal(B, S, D)},
        num_weights=0,
        call=_call_position,
    )
    x = layer_checks.normal(B, S, D)
    np.testing.assert_allclose(layer(x) - x, [_numpy_sinusoid(range(S), D)] * B, atol=1e-5)
    positions = np.array([[0, 1, 0, 1, 2]] * B)  # the positions of a packed example
    expected = [_numpy_sinusoid(positions[0], D)] * B
    np.testing.assert_allclose(layer(x, positions) - x, expected, atol=1e-5)


def test_learned_position_matches_reference():
    layer = layer_checks.check_layer(
        lambda dtype: timing_signal.LearnedPosition(S - 1, dtype=dtype),
        {"x": layer_checks.normal(B, S, D)},
        num_weights=1,
        call=_call_position,
    )
    (table,) = layer.get_weights()
    zeros = tf.zeros([1, S, D])
    np.testing.assert_allclose(layer(zeros)[0], np.concatenate([table, np.zeros((1, D))]))
    np.testing.assert_allclose(layer(zeros[:, :2])[0], table[:2])
    positions = np.array([[0, 1, 2, 0, 1]])
    np.testing.assert_allclose(layer(zeros, positions)[0], table[positions[0]])


def _signal(layer, step, state=None):
    state = tf.zeros([B, S, D]) if state is None else state
    if not layer.built:
        layer.build((None, None, D))
    return layer(state, tf.constant(step), layer.prepare(tf.range(S))).numpy()


@pytest.mark.parametrize("combine", ["add", "concat"])
@pytest.mark.parametrize("step", [None, "learned", "sinusoid"])
@pytest.mark.parametrize("start", [None, "step"])
def test_layer_behaviors(combine, step, start):
    def make(dtype):
        return timing_signal.StepTimingSignal(
            N, position_start_index=start, step=step, combine=combine, dtype=dtype
        )

    def call(layer, state, training=None):
        del training
        return layer(state, tf.constant(2), layer.prepare(tf.range(tf.shape(state)[1])))

    layer_checks.check_layer(
        make,
        {"state": layer_checks.normal(B, S, D)},
        num_weights=(step == "learned") + (combine == "concat"),
        call=call,
    )


@pytest.mark.parametrize("step", [0, 2, 3])
def test_learned_step_is_added(step):
    layer = timing_signal.StepTimingSignal(N)
    got = _signal(layer, step)
    (table,) = layer.get_weights()
    assert table.shape == (N, 1, 1, D)
    expected = _numpy_sinusoid(range(S), D) + table[step, 0] * math.sqrt(D)
    np.testing.assert_allclose(got, [expected] * B, atol=1e-5)


@pytest.mark.parametrize("step", [0, 2, 3])
def test_sinusoid_step_is_added(step):
    got = _signal(timing_signal.StepTimingSignal(N, step="sinusoid"), step)
    expected = _numpy_sinusoid(range(S), D) + _numpy_sinusoid([step], D)
    np.testing.assert_allclose(got, [expected] * B, atol=1e-5)


def test_step_signal_works_without_position_signal():
    got = _signal(timing_signal.StepTimingSignal(N, position=False, step="sinusoid"), 2)
    np.testing.assert_allclose(got, np.tile(_numpy_sinusoid([2], D), (B, S, 1)), atol=1e-5)


@pytest.mark.parametrize("combine", ["add", "concat"])
def test_layer_without_signals_is_identity(combine):
    layer = timing_signal.StepTimingSignal(N, position=False, step=None, combine=combine)
    state = layer_checks.normal(B, S, D)
    np.testing.assert_array_equal(_signal(layer, 1, state), state)
    assert not layer.weights


@pytest.mark.parametrize("step", [None, "learned", "sinusoid"])
def test_concat_matches_reference(step):
    layer = timing_signal.StepTimingSignal(N, step=step, combine="concat")
    state = layer_checks.normal(B, S, D)
    got = _signal(layer, 3, state)
    parts = [state, np.stack([_numpy_sinusoid(range(S), D)] * B)]
    if step == "learned":
        table = layer.layer_embedding.numpy()[3, 0]
        assert table.shape == (1, 2 * D)
        parts.append(np.tile(table * math.sqrt(2 * D), (B, S, 1)))
    elif step == "sinusoid":
        parts.append(np.tile(_numpy_sinusoid([3], 2 * D), (B, S, 1)))
    kernel = layer.projection.kernel.numpy()
    np.testing.assert_allclose(got, np.concatenate(parts, axis=-1) @ kernel, atol=1e-5)


@pytest.mark.parametrize("step", range(N))
def test_start_index_step_grows_with_step(step):
    layer = timing_signal.StepTimingSignal(N, position_start_index="step", step=None)
    layer.build((None, None, D))
    for length in (S, 11):
        start = int(length * step / N)  # 0, 1, 2, 3 for S, and 0, 2, 5, 8 for 11
        expected = _numpy_sinusoid(range(start, start + length), D)
        got = layer(tf.zeros([B, length, D]), tf.constant(step), layer.prepare(tf.range(length)))
        np.testing.assert_allclose(got, [expected] * B, atol=1e-5)


@pytest.mark.parametrize("graph", [False, True])
def test_start_index_random_covers_all_positions(graph):
    layer = timing_signal.StepTimingSignal(N, position_start_index="random", step=None)
    layer.build((None, None, D))
    call = lambda: layer(tf.zeros([B, S, D]), tf.constant(0), layer.prepare(tf.range(S)))  # noqa: E731
    call = tf.function(call) if graph else call
    expected = [_numpy_sinusoid(range(start, start + S), D) for start in range(S)]
    seen = set()
    for _ in range(40):
        got = call().numpy()
        (start,) = [i for i in range(S) if np.allclose(got, [expected[i]] * B, atol=1e-5)]
        seen.add(start)
    assert seen == set(range(S))


def test_step_timing_signal_rejects_bad_arguments():
    with pytest.raises(ValueError, match="combine must be one of .*Received: 'mul'"):
        timing_signal.StepTimingSignal(N, combine="mul")
    with pytest.raises(ValueError, match="position_start_index must be one of .*Received: 'one'"):
        timing_signal.StepTimingSignal(N, position_start_index="one")
    with pytest.raises(ValueError, match="step must be one of .*Received: 'no'"):
        timing_signal.StepTimingSignal(N, step="no")
    layer = timing_signal.StepTimingSignal(N, position=False, combine="concat")
    with pytest.raises(ValueError, match="Received: position=False"):
        layer.build((None, None, D))
