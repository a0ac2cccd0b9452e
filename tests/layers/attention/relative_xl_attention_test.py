import numpy as np
import tensorflow as tf

from tests.layers import layer_checks, masked_attention
from tests.layers.masked_attention import REAL, B, D, H, K, S, X
from ut_keras.layers.attention import attention, relative_xl_attention
from ut_keras.layers.position import timing_signal


def _layer(dtype="float32"):
    return relative_xl_attention.RelativeXLAttention(H, D, key_channels=K, dtype=dtype)


def test_layer_behaviors():
    masked_attention.check_layer(_layer, num_weights=7)


def test_matches_reference():
    """The reference computes one pair of query and key at a time, including later keys."""
    layer = masked_attention.build_with_noise(_layer())
    heads = lambda x: np.reshape(x, [*np.shape(x)[:-1], H, -1])  # noqa: E731
    q, k, values = (
        heads(X @ getattr(layer, f"{name}_projection").kernel.numpy())
        for name in ("query", "key", "value")
    )
    u, v = heads(layer.content_bias), heads(layer.position_bias)
    w = layer.relative_projection.kernel.numpy()
    logits = np.empty([B, H, S, S])
    for b, h, i, j in np.ndindex(B, H, S, S):
        r = heads(timing_signal.sinusoid([i - j], D).numpy()[0] @ w)[h]
        logits[b, h, i, j] = (q[b, i, h] + u[h]) @ k[b, j, h] + (q[b, i, h] + v[h]) @ r
    weights = np.exp(logits / np.sqrt(K / H)) * REAL[:, None, None]
    weights /= weights.sum(-1, keepdims=True)
    mixed = np.einsum("bhij,bjhc->bihc", weights, values).reshape(B, S, D)
    got = masked_attention.attend(layer, X, REAL)
    np.testing.assert_allclose(got.weights, weights, atol=1e-5)
    np.testing.assert_allclose(got.output, mixed @ layer.output_projection.kernel, atol=1e-5)


def test_positions_match_consecutive_positions():
    layer = masked_attention.build_with_noise(_layer())
    q, key = (layer_checks.normal(B, H, S, K // H, seed=seed) for seed in (1, 2))
    order = np.array([3, 0, 4, 1, 2])
    whole = layer.logits(tf.constant(q), tf.constant(key), None).numpy()
    there = attention.Positions(tf.constant([2, 4]), tf.constant(order, tf.int32))
    got = layer.logits(tf.constant(q[:, :, [2, 4]]), tf.constant(key[:, :, order]), there).numpy()
    for row, query in enumerate((2, 4)):
        seen = order <= query
        expected = whole[:, :, query, order]
        np.testing.assert_allclose(got[:, :, row, seen], expected[..., seen], atol=1e-5)
