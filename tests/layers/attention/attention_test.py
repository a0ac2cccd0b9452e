import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention
from ut_keras.ops import devices

B, T, S, D, H = 3, 5, 7, 8, 2


def _numpy_attention(layer, query, memory, mask):
    """Compute softmax(Q K^T / sqrt(d)) V for one head after the other."""
    wq, wk, wv, wo = (weight.astype("float64") for weight in layer.get_weights())
    q, k, v = query @ wq, memory @ wk, memory @ wv
    dk, dv = q.shape[-1] // layer.num_heads, v.shape[-1] // layer.num_heads
    heads, all_weights = [], []
    for head in range(layer.num_heads):
        keys, values = slice(head * dk, (head + 1) * dk), slice(head * dv, (head + 1) * dv)
        logits = np.einsum("btc,bsc->bts", q[..., keys], k[..., keys]) / np.sqrt(dk)
        logits = np.where(mask, logits, -np.inf)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        heads.append(weights @ v[..., values])
        all_weights.append(weights)
    return np.concatenate(heads, axis=-1) @ wo, np.stack(all_weights, axis=1)


def _masked(layer, query, padding_mask, training=False):
    mask = attention.padding_attention_mask(padding_mask)
    return layer(query, attention_mask=mask, training=training)


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: attention.MultiHeadAttention(H, D, 4, 6, dtype=dtype),
        {"query": layer_checks.normal(B, S, D), "padding_mask": np.arange(S) < [[7], [4], [1]]},
        num_weights=4,
        call=_masked,
        mixed_dtypes=("bfloat16", "float32"),
    )


@pytest.mark.parametrize("channels", [(None, None), (4, 12)], ids=["hidden", "key4_value12"])
@pytest.mark.parametrize("causal", [False, True])
def test_matches_reference(channels, causal):
    layer = attention.MultiHeadAttention(H, D, *channels)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    x = layer_checks.normal(B, S, D)
    mask = np.arange(S)[None, None] < np.array([7, 4, 1])[:, None, None]  # [B, 1, S]
    if causal:
        mask = mask & np.tril(np.ones((S, S), bool))
    got = layer(x, attention_mask=tf.constant(mask[:, None]))
    output, weights = _numpy_attention(layer, x, x, mask)
    np.testing.assert_allclose(got.output, output, atol=1e-5)
    np.testing.assert_allclose(got.weights, weights, atol=1e-6)


def test_attention_uses_given_keys_and_values():
    layer = attention.MultiHeadAttention(H, D, 4, 6)
    layer.build((None, None, D))
    query, memory = layer_checks.normal(B, T, D), layer_checks.normal(B, S, D, seed=1)
    key_value = layer.project_key_value(memory)
    assert key_value.key.shape == (B, H, S, 2)
    assert key_value.value.shape == (B, H, S, 3)
    got = layer(query, key_value=key_value)
    output, weights = _numpy_attention(layer, query, memory, np.ones((B, 1, S), bool))
    assert got.weights.shape == (B, H, T, S)
    np.testing.assert_allclose(got.output, output, atol=1e-5)
    np.testing.assert_allclose(got.weights, weights, atol=1e-6)


def test_missing_mask_equals_mask_of_ones():
    layer = attention.MultiHeadAttention(H, D)
    x = layer_checks.normal(B, S, D)
    masked = layer(x, attention_mask=tf.ones([1, 1, S, S], tf.bool))
    np.testing.assert_allclose(layer(x).output, masked.output, atol=1e-6)


def test_fully_masked_query_has_equal_weights():
    layer = attention.MultiHeadAttention(H, D)
    got = layer(layer_checks.normal(1, S, D), attention_mask=tf.zeros([1, 1, 1, S], tf.bool))
    np.testing.assert_allclose(got.weights, np.full((1, H, S, S), 1 / S), atol=1e-6)
    assert np.isfinite(got.output).all()


def test_padding_has_no_effect():
    layer = attention.MultiHeadAttention(H, D)
    x = layer_checks.normal(B, S, D)
    changed = x.copy()
    changed[:, 4:] = 100.0
    real = np.tile(np.arange(S) < 4, (B, 1))
    first, second = _masked(layer, x, real).output, _masked(layer, changed, real).output
    np.testing.assert_array_equal(first[:, :4], second[:, :4])
    assert np.abs(first[:, 4:] - second[:, 4:]).max() > 1  # The outputs at padding differ.


def test_keras_mask_of_query_hides_padding():
    query = layer_checks.normal(B, S, D)
    query[0, 4:] = 0.0
    inputs = keras.Input((S, D))
    causal = attention.causal_attention_mask(S)
    for given in ({}, {"attention_mask": causal}):
        layer = attention.MultiHeadAttention(H, D)
        masked = keras.layers.Masking()(inputs)
        found = keras.Model(inputs, tuple(layer(masked, **given))).predict(query, verbose=0)
        mask = attention.padding_attention_mask(np.any(query != 0, axis=-1))
        if given:
            mask &= causal
        for a, b in zip(found, layer(query, attention_mask=mask), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_is_causal():
    layer = attention.MultiHeadAttention(H, D)
    x = layer_checks.normal(B, S, D)
    changed = x.copy()
    changed[:, 3:] += 5.0
    mask = attention.causal_attention_mask(S)
    first = layer(x, attention_mask=mask).output
    second = layer(changed, attention_mask=mask).output
    np.testing.assert_array_equal(first[:, :3], second[:, :3])
    assert np.all(np.abs(first[:, 3:] - second[:, 3:]).max(axis=-1) > 1e-3)


def test_returned_weights_precede_dropout():
    layer = attention.MultiHeadAttention(H, D, dropout_rate=0.5)
    x = layer_checks.normal(B, S, D)
    plain = layer(x, training=False)
    dropped = layer(x, training=True)
    np.testing.assert_allclose(plain.weights, dropped.weights, atol=1e-6)
    assert np.abs(plain.output - dropped.output).max() > 1e-2


def test_dropout_broadcasts_over_queries():
    # The value of key i is the one-hot vector i, so an output shows which keys were kept.
    layer = attention.MultiHeadAttention(1, S, dropout_rate=0.5, dropout_broadcast_dims=(2,))
    layer.build((None, None, S))
    layer.set_weights([np.zeros((S, S))] * 2 + [np.eye(S)] * 2)
    kept = layer(np.eye(S, dtype="float32")[None], training=True).output.numpy()[0] > 0
    assert kept.any() and not kept.all()
    np.testing.assert_array_equal(kept, np.tile(kept[:1], (S, 1)))


@pytest.mark.parametrize("queries", [0, 3])
@pytest.mark.parametrize("keys", [0, 5])
def test_attention_accepts_empty_sequences(queries, keys):
    layer = attention.MultiHeadAttention(2, D)
    layer.build((None, None, D))
    key_value = layer.project_key_value(tf.zeros([B, keys, D]))
    result = layer(tf.ones([B, queries, D]), key_value)
    assert result.output.shape == (B, queries, D)
    assert result.weights.shape == (B, 2, queries, keys)
    assert np.all(result.output == 0)


def test_attention_rejects_indivisible_channels():
    with pytest.raises(ValueError, match="value_channels must be divisible by num_heads.*6.*4"):
        attention.MultiHeadAttention(4, 8, value_channels=6)
    with pytest.raises(ValueError, match="key_channels must be divisible by num_heads"):
        attention.MultiHeadAttention(4, 6)


def test_padding_attention_mask_hides_padding():
    mask = attention.padding_attention_mask(np.array([[True, True, False]]))
    np.testing.assert_array_equal(mask, [[[[True, True, False]]]])


def test_causal_attention_mask_hides_later_positions():
    mask = attention.causal_attention_mask(3)
    expected = [[True, False, False], [True, True, False], [True, True, True]]
    np.testing.assert_array_equal(mask, [[expected]])


def test_segment_attention_mask_separates_segments():
    mask = attention.segment_attention_mask(np.array([[1, 2]]), np.array([[1, 1, 2, 0]]))
    expected = [[True, True, False, False], [False, False, True, False]]
    np.testing.assert_array_equal(mask, [[expected]])


def test_attention_rejects_mask_of_rank_3():
    """Keras uses masks [B, T, S]. If B = H, such a mask would be broadcast as [H, T, S]."""
    layer, x = layer_checks.make_block(4), layer_checks.normal(2, 3, 4)
    self_attention = layer.layers[0].self_attention
    for call in (layer, self_attention):
        with pytest.raises(ValueError, match=r"attention_mask must .*Received: \(2, 3, 3\)"):
            call(x, attention_mask=np.ones((2, 3, 3), bool))


def test_attention_rejects_keys_and_values_that_are_not_projected():
    """Users of `keras.layers.MultiHeadAttention` pass the sequence itself."""
    layer, x = attention.MultiHeadAttention(2, 8), tf.ones([1, 3, 8])
    with pytest.raises(ValueError, match="KeyValue.*Received: EagerTensor.*project_key_value"):
        layer(x, x)


@pytest.mark.parametrize("length", [1, 3, 20])
def test_form_for_gpus_transposes_heads(length, monkeypatch):
    layer = attention.MultiHeadAttention(num_heads=2, hidden_size=8)
    x = tf.constant(np.random.RandomState(0).randn(2, length, 8), tf.float32)
    layer(x)
    outputs = []
    for has_gpu in (False, True):
        monkeypatch.setattr(devices, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        traced = tf.function(lambda: layer(x).output, autograph=False).get_concrete_function()
        outputs.append(traced().numpy())
    np.testing.assert_array_equal(*outputs)
    operations = [operation.type for operation in traced.graph.get_operations()]
    assert not {"Pack", "Unpack"} & {*operations}
    assert operations.count("Transpose") == (0 if length == 1 else 4)
