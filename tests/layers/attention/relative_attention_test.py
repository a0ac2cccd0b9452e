import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention, relative_attention

B, S, D, H, M = 3, 7, 8, 2, 3
PADDING = np.arange(S) < [[7], [4], [1]]


def _relative(dtype="float32", **arguments):
    return relative_attention.RelativeAttention(
        H, D, max_relative_position=M, dtype=dtype, **arguments
    )


def _causal(dtype="float32", **arguments):
    return relative_attention.CausalRelativeAttention(
        H, D, max_relative_position=M, dtype=dtype, **arguments
    )


def _masked(layer, query, padding_mask, training=False):
    mask = attention.padding_attention_mask(padding_mask)
    return layer(query, attention_mask=mask, training=training)


def _decode(layer, query, training=False):
    mask = attention.causal_attention_mask(tf.shape(query)[1])
    return layer(query, attention_mask=mask, training=training)


def _reference(layer, x, mask, key_vector, value_vector):
    """Compute attention for one pair of query and key at a time.

    `key_vector` and `value_vector` are functions (head, query, key) -> [d].
    """
    wq, wk, wv, wo = (weight.numpy().astype("float64") for weight in layer.weights[-4:])
    q, k, v = ((x @ w).reshape(len(x), S, H, -1) for w in (wq, wk, wv))
    q = q / np.sqrt(q.shape[-1])
    mixed = np.zeros_like(v)
    for b, h, i in np.ndindex(len(x), H, S):
        logits = [q[b, i, h] @ (k[b, j, h] + key_vector(h, i, j)) for j in range(S)]
        weights = np.exp(np.where(mask[b, i], logits, -np.inf))
        weights /= weights.sum()
        mixed[b, i, h] = sum(
            weights[j] * (v[b, j, h] + value_vector(h, i, j)) for j in range(S) if mask[b, i, j]
        )
    return mixed.reshape(len(x), S, -1) @ wo


def _build_with_noise(layer):
    layer.build((None, None, D))
    return layer_checks.shake(layer)


def test_layer_behaviors():
    layer_checks.check_layer(
        _relative,
        {"query": layer_checks.normal(B, S, D), "padding_mask": PADDING},
        num_weights=6,
        call=_masked,
        mixed_dtypes=("bfloat16", "float32"),
    )


@pytest.mark.parametrize("shared", [False, True])
def test_causal_layer_behaviors(shared):
    layer_checks.check_layer(
        lambda dtype: _causal(
            dtype, heads_share_relative_embedding=shared, add_relative_to_values=True
        ),
        {"query": layer_checks.normal(B, S, D)},
        num_weights=6,
        call=_decode,
        mixed_dtypes=("bfloat16", "float32"),
    )


def test_matches_reference():
    layer = _build_with_noise(_relative(hard_attention_k=0))
    x = layer_checks.normal(B, S, D)
    mask = np.tile(PADDING[:, None], (1, S, 1))
    keys, values = layer.key_table.numpy(), layer.value_table.numpy()

    def clipped(i, j):
        return np.clip(j - i, -M, M) + M

    expected = _reference(
        layer, x, mask, lambda h, i, j: keys[clipped(i, j)], lambda h, i, j: values[clipped(i, j)]
    )
    np.testing.assert_allclose(_masked(layer, x, PADDING).output, expected, atol=1e-5)


@pytest.mark.parametrize("length", [2, S])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("to_values", [False, True])
def test_causal_matches_reference(shared, to_values, length):
    """The vector of a distance >= M is 0. Short sequences use only a part of the table."""
    layer = _build_with_noise(
        _causal(
            value_channels=12 if not to_values else None,
            heads_share_relative_embedding=shared,
            add_relative_to_values=to_values,
        )
    )
    x = layer_checks.normal(B, S, D)
    mask = np.tile(np.tril(np.ones((S, S), bool)), (B, 1, 1))

    def vector(table):
        def look_up(head, i, j):
            known = 0 <= i - j < M
            heads = table if shared else table[head]
            return heads[M - 1 - (i - j)] if known else 0.0

        return look_up

    keys = vector(layer.key_table.numpy())
    values = vector(layer.value_table.numpy()) if to_values else lambda *_: 0.0
    expected = _reference(layer, x, mask, keys, values)
    got = _decode(layer, x[:, :length]).output
    np.testing.assert_allclose(got, expected[:, :length], atol=1e-5)

    # The following case is an encoder, in which no mask hides later positions.
    layer.mask_future = True
    expected = _reference(layer, x, np.tile(PADDING[:, None], (1, S, 1)), keys, values)
    got = _masked(layer, x, PADDING).output
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("make", [_relative, _causal])
def test_is_causal(make):
    layer = _build_with_noise(make())
    x = layer_checks.normal(B, S, D)
    changed = x.copy()
    changed[:, 3:] += 5.0
    first, second = _decode(layer, x).output, _decode(layer, changed).output
    np.testing.assert_allclose(first[:, :3], second[:, :3], atol=1e-6)
    assert np.abs(first[:, 3:] - second[:, 3:]).max() > 1e-3


def test_padding_has_no_effect():
    layer = _build_with_noise(_relative())
    x = layer_checks.normal(B, S, D)
    changed = np.where(PADDING[..., None], x, 100.0).astype("float32")
    first, second = (_masked(layer, y, PADDING).output.numpy() for y in (x, changed))
    np.testing.assert_allclose(first[PADDING], second[PADDING], atol=1e-6)


def test_fewer_queries_have_last_positions():
    """Without `Positions`, the last query has the position of the last key."""
    layer = _build_with_noise(_relative())
    x = layer_checks.normal(B, S, D)
    got = layer(x[:, -2:], key_value=layer.project_key_value(x))
    np.testing.assert_allclose(got.output, layer(x).output[:, -2:], atol=1e-6)


def test_hard_attention_keeps_largest_weights():
    layer = _build_with_noise(_relative(hard_attention_k=3))
    weights = layer(layer_checks.normal(B, S, D)).weights.numpy()
    np.testing.assert_array_equal((weights > 0).sum(-1), np.full((B, H, S), 2))
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)


def test_relative_attention_rejects_bad_arguments():
    with pytest.raises(ValueError, match="max_relative_position must .* 1. Received: 0"):
        relative_attention.RelativeAttention(H, D, max_relative_position=0)
    with pytest.raises(ValueError, match="max_relative_position must .* 1. Received: 0"):
        relative_attention.CausalRelativeAttention(H, D, max_relative_position=0)
    with pytest.raises(ValueError, match="Received: key_channels=8, value_channels=4"):
        _relative(value_channels=4)
