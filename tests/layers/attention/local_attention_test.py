import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention, local_attention

B, S, D, H = 3, 11, 8, 2
PADDING = np.arange(S) < [[11], [6], [1]]
WINDOWS = {
    "mask_right": {"block_length": 3, "left": 3, "causal": True},
    "unmasked": {"block_length": 3, "left": 3, "right": 3},
    "uneven": {"block_length": 4, "left": 1, "right": 2},
    "single_right": {"block_length": 1, "left": 1, "causal": True},
    "single": {"block_length": 1, "left": 1, "right": 1},
    "one_block": {"block_length": 16, "left": 16, "right": 16},
}


def _local(dtype="float32", **window):
    return local_attention.LocalAttention(H, D, dtype=dtype, **window)


def _masked(layer, query, padding_mask, training=False):
    mask = attention.padding_attention_mask(padding_mask)
    return layer(query, attention_mask=mask, training=training)


def _decode(layer, query, training=False):
    mask = attention.causal_attention_mask(tf.shape(query)[1])
    return layer(query, attention_mask=mask, training=training)


def _window_mask(block_length, left, right=0, causal=False, length=S):
    """Return a bool mask [S, S] that is True for the keys in the window of each query."""
    i, j = np.arange(length)[:, None], np.arange(length)[None]
    start = i // block_length * block_length
    seen = (j >= start - left) & (j < start + block_length + right)
    return seen & (j <= i) if causal else seen


@pytest.mark.parametrize("call", [_masked, _decode])
def test_layer_behaviors(call):
    arguments = {"query": layer_checks.normal(B, S, D)}
    if call is _masked:
        arguments["padding_mask"] = PADDING
    layer_checks.check_layer(
        lambda dtype: _local(dtype, **WINDOWS["uneven"]),
        arguments,
        num_weights=4,
        call=call,
        mixed_dtypes=("bfloat16", "float32"),
    )


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("masked", ["not", "padding", "segments"])
def test_matches_reference(window, masked):
    """Full attention with a window mask has the same output, weights and gradients."""
    layer = _local(**WINDOWS[window])
    layer.build((None, None, D))
    layer_checks.shake(layer)
    full = attention.MultiHeadAttention(H, D)
    full.build((None, None, D))
    full.set_weights(layer.get_weights())
    x = layer_checks.normal(B, S, D)
    mask = {
        "not": None,
        "padding": attention.padding_attention_mask(tf.constant(PADDING)),
        "segments": attention.segment_attention_mask(*[tf.constant(PADDING * 1)] * 2),
    }[masked]
    allowed = _window_mask(**WINDOWS[window])[None, None] & (True if mask is None else mask.numpy())
    some = np.broadcast_to(allowed.any(-1), (B, 1, S))[:, 0]  # the queries that have a key
    results = []
    for attend, seen in (
        (layer, mask),
        (full, tf.constant(np.broadcast_to(allowed, (B, 1, S, S)))),
    ):
        with tf.GradientTape() as tape:
            result = attend(x, attention_mask=seen)
            loss = tf.reduce_sum(result.output[some] ** 2)
        weights = [result.weights.numpy()[:, head][some] for head in range(H)]
        gradients = tape.gradient(loss, attend.trainable_variables)
        results.append((result.output.numpy()[some], weights, gradients))
    for got, want in zip(*results, strict=True):
        for value, wanted in zip(got, want, strict=True):
            # A gradient is a sum over all positions. Therefore, the rounding error of a small value
            # depends on the largest terms of the sum.
            rounding = np.finfo("float32").eps * B * S * np.abs(wanted).max()
            np.testing.assert_allclose(value, wanted, rtol=0, atol=1e-6 + rounding)


def test_is_causal():
    for layer, call in (
        (_local(**WINDOWS["mask_right"]), lambda layer, x: layer(x)),
        (_local(**WINDOWS["unmasked"]), _decode),
    ):
        x = layer_checks.normal(B, S, D)
        changed = x.copy()
        changed[:, 5:] += 5.0
        first, second = call(layer, x).output, call(layer, changed).output
        np.testing.assert_allclose(first[:, :5], second[:, :5], atol=1e-6)
        assert np.abs(first[:, 5:] - second[:, 5:]).max() > 1e-3


@pytest.mark.parametrize("length", range(1, S))
def test_output_is_independent_of_length(length):
    layer = _local(**WINDOWS["mask_right"])
    x = layer_checks.normal(B, S, D)
    np.testing.assert_allclose(layer(x[:, :length]).output, layer(x).output[:, :length], atol=1e-6)


def test_padding_has_no_effect():
    layer = _local(**WINDOWS["unmasked"])
    x = layer_checks.normal(B, S, D)
    changed = np.where(PADDING[..., None], x, 100.0).astype("float32")
    first, second = (_masked(layer, y, PADDING).output.numpy() for y in (x, changed))
    np.testing.assert_array_equal(first[PADDING], second[PADDING])


def test_dropout_broadcasts_over_queries():
    """Dropout drops a key of a window either for all queries of the block or for none."""
    window = {"block_length": 2, "left": 0}
    layer = _local(dropout_rate=0.5, dropout_broadcast_dims=(-2,), **window)
    layer.build((None, None, D))
    kept = layer.weights_dropout(tf.ones([B, H, 5, 2, 2]), training=True).numpy() > 0
    np.testing.assert_array_equal(kept, np.broadcast_to(kept[:, :, :1, :1], kept.shape))
    assert len(np.unique(kept[:, :, 0, 0])) == 2


def test_local_attention_rejects_empty_blocks():
    with pytest.raises(ValueError, match="block_length must.*Received: block_length=0, left=1"):
        _local(block_length=0, left=1)
