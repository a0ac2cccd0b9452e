import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention
from ut_keras.layers.basic import dropout
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import act, recurrence
from ut_keras.layers.halting import halting
from ut_keras.layers.position import timing_signal

B, S, T, D, N = 3, 5, 4, 8, 3
REAL = np.arange(S) < np.array([[5], [4], [1]])
SILENT = {"position": False, "step": None}


def _recurrence(dtype="float32", num_layers=1, decoder=False, **timing):
    return recurrence.BasicRecurrence(
        layer_checks.make_block(D, dtype, num_layers=num_layers, decoder=decoder),
        timing_signal.StepTimingSignal(N, dtype=dtype, **timing),
        N,
        dtype=dtype,
    )


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: _recurrence(dtype, num_layers=2),
        {"x": layer_checks.normal(B, S, D), "padding_mask": REAL},
        num_weights=2 * 12 + 1,
        call=layer_checks.call_with_mask,
    )


def test_decoder_behaviors():
    layer_checks.check_layer(
        lambda dtype: _recurrence(dtype, decoder=True, combine="concat"),
        {
            "state": layer_checks.normal(B, T, D),
            "memory": layer_checks.normal(B, S, D, seed=1),
            "memory_mask": REAL,
        },
        num_weights=18 + 2,
        call=layer_checks.decode,
    )


@pytest.mark.parametrize("start", [None, "step"])
def test_matches_reference(start):
    """In each of N steps, the reference adds the signals and applies the block."""
    layer = _recurrence(position_start_index=start)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    x = layer_checks.normal(B, S, D)
    mask = attention.padding_attention_mask(REAL)
    expected = x
    signals = layer.timing.prepare(tf.range(S))
    for step in range(N):
        signalled = layer.timing(expected, tf.constant(step), signals)
        expected = layer.block.forward(signalled, StepInputs(mask, REAL)).output
    got = layer.forward(x, StepInputs(attention_mask=mask, padding_mask=REAL))
    np.testing.assert_allclose(got.output, expected, rtol=1e-5, atol=1e-5)
    assert got.ponder_times is None and got.remainders is None


def test_block_is_called_once_per_step():
    block = layer_checks.StubBlock(lambda state, training: state + 1)
    layer = recurrence.BasicRecurrence(block, timing_signal.StepTimingSignal(N, **SILENT), N)
    got = tf.function(layer)(tf.zeros([B, S, D]))
    np.testing.assert_array_equal(got, np.full((B, S, D), N))
    assert block.calls.numpy() == N


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("decoder", [False, True])
def test_record_attention_returns_weights_of_each_step(graph, decoder):
    layer = _recurrence(num_layers=2, decoder=decoder)
    layer.build((None, None, D))
    x, memory = layer_checks.normal(B, T, D), layer_checks.normal(B, S, D, seed=1)

    def run(x):
        projected = layer.project_memory(memory, None) if decoder else None
        return layer.forward(x, StepInputs(memory=projected, record_attention=True))

    got = (tf.function(run, autograph=False) if graph else run)(x)
    assert got.attention_weights.shape == (2 * N, B, 2, T, T)
    np.testing.assert_allclose(tf.reduce_sum(got.attention_weights, -1), 1.0, atol=1e-5)
    if decoder:
        assert got.memory_attention_weights.shape == (2 * N, B, 2, T, S)
    else:
        assert got.memory_attention_weights is None


def test_attention_is_not_recorded_by_default():
    layer, x = _recurrence(), layer_checks.normal(B, T, D)
    layer.build(x.shape)
    got = layer.forward(x)
    assert got.attention_weights is None and got.memory_attention_weights is None


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_dropout_mask_differs_between_steps(adaptive, mode):
    """Each step samples its own dropout mask.

    The block adds the mask, with values 0 and 2, to its input.
    """
    drop = dropout.Dropout(0.5, seed=1)
    block = layer_checks.StubBlock(
        lambda x, training: x + drop(tf.ones_like(x), training=training), count=False
    )
    timing = timing_signal.StepTimingSignal(2, **SILENT)
    if adaptive:
        rule = halting.ACTHalting(2, act_type="accumulated")
        layer = act.AdaptiveComputationTime(block, timing, rule)
        layer.build((None, None, 30))
        # The halting probability p is 1/4 at each step.
        layer.halting.set_weights([np.zeros((30, 1)), np.array([-np.log(3)])])
    else:
        layer = recurrence.BasicRecurrence(block, timing, 2)
    call = layer.forward
    if mode != "eager":
        call = tf.function(call, jit_compile=mode == "xla", autograph=False)
    zeros = tf.zeros([4, 30, 30])
    first, second = (np.asarray(call(zeros, StepInputs(training=True)).output) for _ in range(2))
    if adaptive:  # The output is 0.25 m_1 + 0.25 (m_1 + m_2). m_n is the mask of step n.
        values, of_equal_masks = [0.0, 0.5, 1.0, 1.5], [0.0, 1.5]
    else:  # The output is m_1 + m_2.
        values, of_equal_masks = [0.0, 2.0, 4.0], [0.0, 4.0]
    np.testing.assert_allclose(np.unique(first.round(4)), values)
    differing = ~np.isin(first.round(4), of_equal_masks)
    assert 0.4 < differing.mean() < 0.6
    assert np.any(first != second)
    again = np.asarray(call(zeros, StepInputs(training=False)).output)
    assert len(np.unique(again)) == 1


def test_recurrence_rejects_bad_numbers_of_steps():
    with pytest.raises(ValueError, match="num_steps must be at least 1. Received: 0"):
        recurrence.BasicRecurrence(None, None, 0)
    with pytest.raises(ValueError, match="supervised_every must be at least 0. Received: -1"):
        recurrence.BasicRecurrence(None, None, 1, supervised_every=-1)


def test_steps_sampling_samples_steps_only_in_training():
    """Training samples one number of steps for the batch. Inference takes all steps."""
    timing = timing_signal.StepTimingSignal(3, position=False, step=None)
    block = layer_checks.StubBlock(lambda x, training: x + 1.0)
    layer = recurrence.BasicRecurrence(block, timing, 3, steps_sampling="uniform")
    call = tf.function(
        lambda x, training: layer.forward(x, StepInputs(training=training)).output,
        autograph=False,
    )
    zeros, sampled = tf.zeros([2, 4, 8]), set()
    for _ in range(40):
        (steps,) = np.unique(call(zeros, True))
        sampled.add(steps)
    assert sampled == {1, 2, 3}
    assert np.all(call(zeros, False) == 3.0)
    asked = StepInputs(training=True, num_steps=2)
    assert all(np.all(layer.forward(zeros, asked).output == 2.0) for _ in range(9))
    layer = recurrence.BasicRecurrence(
        layer_checks.make_block(8), timing, 3, steps_sampling="uniform"
    )
    assert layer.from_config(layer.get_config()).steps_sampling.num_steps == 3
    with pytest.raises(ValueError, match="steps_sampling must be one of .*Received: 'normal'"):
        recurrence.BasicRecurrence(block, timing, 3, steps_sampling="normal")
