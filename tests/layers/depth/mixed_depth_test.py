import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import act, mixed_depth, recurrence, stack
from ut_keras.layers.halting import halting
from ut_keras.layers.position import timing_signal

B, S, T, D, N = 3, 5, 4, 8, 3
REAL = np.arange(S) < np.array([[5], [4], [1]])


def _mixed(dtype="float32", places=("before", "after"), decoder=False, adaptive=False, **arguments):
    timing = timing_signal.StepTimingSignal(N, dtype=dtype)
    block = layer_checks.make_block(D, dtype, decoder=decoder)
    if adaptive:
        inner = act.AdaptiveComputationTime(block, timing, halting.ACTHalting(N), dtype=dtype)
    else:
        inner = recurrence.BasicRecurrence(block, timing, N, dtype=dtype)
    layers = {
        place: stack.LayeredDepth(
            layer_checks.make_block(D, dtype, num_layers=2, decoder=decoder), dtype=dtype
        )
        for place in places
    }
    return mixed_depth.MixedDepth(inner, **layers, dtype=dtype, **arguments)


def _decoder_arguments():
    return {
        "state": layer_checks.normal(B, T, D),
        "memory": layer_checks.normal(B, S, D, seed=1),
        "memory_mask": REAL,
    }


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: _mixed(dtype, places=("after",), decoder=True),
        _decoder_arguments(),
        num_weights=2 * 18 + 18 + 1,
        call=layer_checks.decode,
    )


@pytest.mark.parametrize("places", [("before",), ("after",), ("before", "after")])
@pytest.mark.parametrize("position", [False, True])
def test_matches_reference(places, position):
    layer = _mixed(places=places, position=position)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    x = layer_checks.normal(B, S, D)
    mask = attention.padding_attention_mask(REAL)
    signal = timing_signal.sinusoid(np.arange(S), D) if position else 0.0
    y = x
    if "before" in places:
        y = layer.before.forward(y + signal, StepInputs(mask, REAL)).output
    y = layer.recurrence.forward(y, StepInputs(mask, REAL)).output
    if "after" in places:
        y = layer.after.forward(y + signal, StepInputs(mask, REAL)).output
    got = layer.forward(x, StepInputs(attention_mask=mask, padding_mask=REAL))
    np.testing.assert_allclose(got.output, y, rtol=1e-5, atol=1e-5)


def test_attention_weights_are_in_order_of_parts():
    layer = _mixed(decoder=True)
    arguments = _decoder_arguments()
    layer.build((None, None, D))
    layer_checks.shake(layer)
    assert len(layer.project_memory(arguments["memory"], None)) == 2 + 1 + 2
    got = layer_checks.decode(layer, **arguments, record_attention=True)
    assert got.attention_weights.shape == (2 + N + 2, B, 2, T, T)
    assert got.memory_attention_weights.shape == (2 + N + 2, B, 2, T, S)
    x = arguments["state"] + timing_signal.sinusoid(np.arange(T), D)
    first = layer.before.block.layers[0]
    mask = attention.causal_attention_mask(T)
    memory = layer.before.project_memory(
        arguments["memory"], attention.padding_attention_mask(REAL)
    )
    want = first.forward(x, StepInputs(attention_mask=mask, memory=memory[0]))
    np.testing.assert_allclose(got.attention_weights[0], want.attention_weights, atol=1e-6)
    np.testing.assert_allclose(
        got.memory_attention_weights[0], want.memory_attention_weights, atol=1e-6
    )
    assert layer_checks.decode(layer, **arguments).attention_weights is None


def test_ponder_times_come_from_the_recurrence():
    layer = _mixed(adaptive=True)
    x = layer_checks.normal(B, S, D)
    layer.build(x.shape)
    got = layer.forward(x)
    before = layer.before(x + timing_signal.sinusoid(np.arange(S), D))
    inner = layer.recurrence.forward(before)
    np.testing.assert_allclose(got.ponder_times, inner.ponder_times)
    np.testing.assert_allclose(got.remainders, inner.remainders, atol=1e-6)


def test_cache_of_layers_does_not_grow_with_the_steps():
    layer = _mixed()
    layer.build((None, None, D))
    size = cache_lib.CacheSize(tf.constant(B), 1, tf.constant(T), num_steps=5)
    before, recurrent, after = (_rows(cache) for cache in layer.start_cache(size))
    assert before == after == _rows(layer.before.start_cache(size._replace(num_steps=None)))
    once = _rows(layer.recurrence.start_cache(size._replace(num_steps=1)))
    assert recurrent == [5 * rows for rows in once]


def _rows(cache):
    return [len(store) for store in tf.nest.flatten(cache)]
