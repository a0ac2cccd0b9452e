import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import depthwise_attention
from ut_keras.layers.position import timing_signal

B, S, D, N = 3, 5, 8, 4
REAL = np.arange(S) < np.array([[5], [4], [1]])


def _recurrence(dtype="float32", **arguments):
    return depthwise_attention.DepthwiseAttentionRecurrence(
        layer_checks.make_block(D, dtype),
        timing_signal.StepTimingSignal(N, dtype=dtype),
        N,
        dtype=dtype,
        **arguments,
    )


def test_layer_behaviors():
    layer_checks.check_layer(
        _recurrence,
        {"x": layer_checks.normal(B, S, D), "padding_mask": REAL},
        num_weights=12 + 1 + 3,
        call=layer_checks.call_with_mask,
    )


@pytest.mark.parametrize("depth_embedding", [False, True])
@pytest.mark.parametrize("per_element", [False, True])
def test_matches_reference(depth_embedding, per_element):
    layer = _recurrence(depth_embedding=depth_embedding, per_element=per_element)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    x = layer_checks.normal(B, S, D)
    mask = attention.padding_attention_mask(REAL)
    states = [x]
    for step in range(N):
        read = np.zeros_like(x)
        for slot in range(step):
            value = states[slot]
            if depth_embedding:
                value = value + layer.depth_embedding.numpy()[slot, 0, 0] * np.sqrt(D)
            logits = value @ layer.weighting.kernel.numpy() + layer.weighting.bias.numpy()
            weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
            read = read + value * weights
        signalled = layer.timing(
            read.astype("float32"), tf.constant(step), layer.timing.prepare(tf.range(S))
        )
        states.append(layer.block.forward(signalled, StepInputs(mask, REAL)).output.numpy())
    got = layer.forward(x, StepInputs(attention_mask=mask, padding_mask=REAL))
    np.testing.assert_allclose(got.output, states[-1], rtol=1e-4, atol=1e-4)


def test_first_step_does_not_use_input():
    """As in T2T, the first step does not use the input. Only later steps use it."""
    first = depthwise_attention.DepthwiseAttentionRecurrence(
        layer_checks.make_block(D), timing_signal.StepTimingSignal(1), 1
    )
    x = layer_checks.normal(B, S, D)
    np.testing.assert_array_equal(first(x), first(2 * x))
    assert np.abs(_recurrence()(x) - _recurrence()(2 * x)).max() > 1e-3
