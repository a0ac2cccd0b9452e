"""Tests of `TransformerLayer`, and of the block and the stack that contain such layers."""

import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import stack, transformer_layer
from ut_keras.layers.transition import transition

B, S, T, D = 3, 5, 4, 8
REAL = np.arange(S) < np.array([[5], [4], [1]])
# Self-attention has 4 weights, and the transition has 4 weights. Each of these two sublayers also
# has a layer norm with 2 weights.
LAYER_WEIGHTS = 12
DECODER_WEIGHTS = LAYER_WEIGHTS + 6


def _layer(
    dtype="float32",
    decoder=False,
    preprocess="n",
    postprocess="da",
    dropout_rate=0.0,
    residual_scale=1.0,
    transition_postprocess=None,
):
    def make_attention():
        return attention.MultiHeadAttention(2, D, dtype=dtype)

    return transformer_layer.TransformerLayer(
        make_attention(),
        transition.FeedForward(2 * D, D, dtype=dtype),
        make_attention() if decoder else None,
        preprocess,
        postprocess,
        dropout_rate=dropout_rate,
        residual_scale=residual_scale,
        transition_postprocess_sequence=transition_postprocess,
        dtype=dtype,
    )


def _decoder_arguments():
    return {
        "state": layer_checks.normal(B, T, D),
        "memory": layer_checks.normal(B, S, D, seed=1),
        "memory_mask": REAL,
    }


def test_layer_behaviors():
    layer_checks.check_layer(
        _layer,
        {"x": layer_checks.normal(B, S, D), "padding_mask": REAL},
        LAYER_WEIGHTS,
        call=layer_checks.call_with_mask,
        mixed_dtypes=("bfloat16", "float32"),
    )


def test_decoder_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: _layer(dtype, decoder=True),
        _decoder_arguments(),
        DECODER_WEIGHTS,
        call=layer_checks.decode,
        mixed_dtypes=("bfloat16", "float32", "float32"),
    )


@pytest.mark.parametrize(
    ("preprocess", "postprocess", "scale"),
    [
        ("n", "da", 1.0),
        ("none", "dan", 1.0),
        ("none", "a", 0.5),
        ("n", "nda", 1.0),
        ("n", "dan", 0.5),
    ],
)
@pytest.mark.parametrize("decoder", [False, True])
def test_matches_reference(preprocess, postprocess, scale, decoder):
    """Compare with the formulas of pre-norm, post-norm, peri-norm and sandwich norm.

    In this order, the formulas are x + f(norm(x)), norm(x + f(x)), x + norm(f(norm(x))) and
    norm(x + f(norm(x))).
    """
    norms = {"preprocess": preprocess, "postprocess": postprocess}
    layer = _layer(decoder=decoder, residual_scale=scale, **norms)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    state = layer_checks.normal(B, T, D)
    memory = layer_checks.normal(B, S, D, seed=1)
    causal = attention.causal_attention_mask(T)

    def wrapped(block, x, sublayer):
        def norm(part, x):
            scale, bias = part.get_weights()
            x = x - x.mean(-1, keepdims=True)
            return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale + bias

        y = sublayer(norm(block.preprocess, x) if preprocess == "n" else x)
        y = x + scale * (norm(block.postprocess, y) if postprocess == "nda" else y)
        return norm(block.postprocess, y) if postprocess == "dan" else y

    x = wrapped(
        layer.self_attention_block,
        state,
        lambda x: layer.self_attention(x, attention_mask=causal).output.numpy(),
    )
    if decoder:
        key_value = layer.memory_attention.project_key_value(memory)
        x = wrapped(
            layer.memory_attention_block,
            x,
            lambda x: layer.memory_attention(x, key_value=key_value).output.numpy(),
        )
    x = wrapped(layer.transition_block, x, lambda x: layer.transition(x).numpy())

    if decoder:
        got = layer_checks.decode(layer, state, memory, np.ones((B, S), bool))
        assert got.memory_attention_weights.shape == (B, 2, T, S)
    else:
        got = layer.forward(state, StepInputs(attention_mask=causal))
        assert got.memory_attention_weights is None
    assert got.attention_weights.shape == (B, 2, T, T)
    np.testing.assert_allclose(got.output, x, atol=1e-5)


def test_memory_requires_memory_attention():
    state, memory = layer_checks.normal(B, T, D), layer_checks.normal(B, S, D)
    layer, decoder = _layer(), _layer(decoder=True)
    for built in (layer, decoder):
        built.build((None, None, D))
    projected = decoder.project_memory(memory, REAL[:, None, None])
    without = "A layer without memory_attention needs no memory.*Received: one"
    with pytest.raises(ValueError, match=without):
        layer.forward(state, StepInputs(memory=projected))
    with pytest.raises(ValueError, match=without):
        layer(state, memory=memory)
    with pytest.raises(ValueError, match="with memory_attention needs a memory.*Received: none"):
        decoder(state)


def test_dropout_is_applied_only_in_training():
    layer = _layer(dropout_rate=0.5)
    x = layer_checks.normal(B, S, D)
    np.testing.assert_array_equal(layer(x), layer(x, training=False))
    assert np.abs(layer(x, training=True) - layer(x)).max() > 0.1


def test_padding_has_no_effect():
    layer, x = _layer(), layer_checks.normal(B, S, D)
    changed = np.where(REAL[..., None], x, 50.0)
    first = layer_checks.call_with_mask(layer, x, REAL).output.numpy()
    second = layer_checks.call_with_mask(layer, changed, REAL).output.numpy()
    np.testing.assert_array_equal(first[REAL], second[REAL])


def test_is_causal():
    layer, arguments = _layer(decoder=True), _decoder_arguments()
    layer.build((None, None, D))
    first = layer_checks.decode(layer, **arguments).output
    arguments["state"] = arguments["state"].copy()
    arguments["state"][:, 2:] += layer_checks.normal(B, T - 2, D, seed=2)
    second = layer_checks.decode(layer, **arguments).output
    np.testing.assert_array_equal(first[:, :2], second[:, :2])
    assert np.all(np.abs(first[:, 2:] - second[:, 2:]).max(axis=-1) > 1e-3)


def test_padding_in_memory_has_no_effect():
    layer, arguments = _layer(decoder=True), _decoder_arguments()
    layer.build((None, None, D))
    first = layer_checks.decode(layer, **arguments).output
    arguments["memory"] = np.where(REAL[..., None], arguments["memory"], 50.0)
    np.testing.assert_array_equal(first, layer_checks.decode(layer, **arguments).output)


def test_block_behaviors():
    layer_checks.check_layer(
        lambda dtype: layer_checks.make_block(D, dtype, num_layers=2, decoder=True),
        _decoder_arguments(),
        2 * DECODER_WEIGHTS,
        call=layer_checks.decode,
        mixed_dtypes=("bfloat16", "float32", "float32", "float32", "float32"),
    )


def test_block_applies_its_layers_in_order():
    block = layer_checks.make_block(D, num_layers=2)
    block.build((None, None, D))
    layer_checks.shake(block)
    x = layer_checks.normal(B, S, D)
    first, second = block.layers
    assert [layer.name for layer in block.layers] == ["layer_0", "layer_1"]
    np.testing.assert_allclose(block(x), second(first(x)), atol=1e-6)


def _stack(dtype="float32", decoder=False, preprocess="n"):
    block = layer_checks.make_block(D, dtype, num_layers=2, decoder=decoder)
    return stack.Stack(stack.LayeredDepth(block, dtype=dtype), preprocess, dtype=dtype)


def test_stack_behaviors():
    layer_checks.check_layer(
        _stack,
        {"x": layer_checks.normal(B, S, D), "padding_mask": REAL},
        2 * LAYER_WEIGHTS + 2,
        call=layer_checks.call_with_mask,
    )


def test_stack_ends_with_normalization():
    made = _stack()
    x = layer_checks.normal(B, S, D)
    made.build(x.shape)
    result = made.forward(x)
    inner = made.depth(x).numpy()
    expected = (inner - inner.mean(-1, keepdims=True)) / inner.std(-1, keepdims=True)
    np.testing.assert_allclose(result.output, expected, atol=1e-4)
    assert result.ponder_times is None and result.remainders is None
    post = _stack(preprocess="none")
    np.testing.assert_array_equal(post(x), post.depth(x))


@pytest.mark.parametrize("decoder", [False, True])
def test_stack_records_attention(decoder):
    made = _stack(decoder=decoder)
    made.build((None, None, D))
    x, memory = layer_checks.normal(B, T, D), layer_checks.normal(B, S, D, seed=1)
    projected = made.project_memory(memory, None) if decoder else None
    result = made.forward(x, StepInputs(memory=projected, record_attention=True))
    assert result.attention_weights.shape == (2, B, 2, T, T)
    np.testing.assert_allclose(tf.reduce_sum(result.attention_weights, -1), 1.0, atol=1e-5)
    if decoder:
        assert result.memory_attention_weights.shape == (2, B, 2, T, S)
    else:
        assert result.memory_attention_weights is None
    assert made.forward(x, StepInputs(memory=projected)).attention_weights is None


@pytest.mark.parametrize("sequence", ["", "none"])
def test_transition_can_be_without_postprocessing(sequence):
    layer = _layer(transition_postprocess=sequence)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    state = layer_checks.normal(B, T, D)
    attended = layer.self_attention_block(state).output
    got = layer.forward(state, StepInputs()).output
    want = layer.transition(layer.transition_block.preprocess(attended))
    np.testing.assert_allclose(got, want, atol=1e-6)
