import numpy as np
import pytest
import tensorflow as tf

from tests.layers import masked_attention
from tests.layers.masked_attention import REAL, B, D, H, K, S, X
from tests.models import examples
from ut_keras import hparam_schema
from ut_keras.layers.attention import attention, geometric_attention


def _layer(dtype="float32", **options):
    return geometric_attention.GeometricAttention(H, D, key_channels=K, dtype=dtype, **options)


def test_layer_behaviors():
    masked_attention.check_layer(_layer, num_weights=6)


def _reference(layer, x, mask, keep=1.0):
    """Compute the weights key by key, from the nearest key to the farthest key.

    If two keys have the same distance, the key after the query comes first. The reference
    multiplies the keys [B, S, H, d] by `keep`.
    """
    wq = np.reshape(layer.query_projection.kernel, [D, H, K // H + 2])
    wk = np.reshape(layer.key_projection.kernel, [D, H, K // H])
    u, c = np.reshape(layer.content_bias, [H, -1]), np.asarray(layer.direction_bias)[:, 0]
    weights, keep = np.zeros([len(x), H, S, S]), np.broadcast_to(keep, [len(x), S, H, K // H])
    for b, h, i in np.ndindex(len(x), H, S):
        q = x[b, i] @ wq[:, h]
        left = 1.0
        for j in sorted(range(S), key=lambda j: (abs(j - i), j < i)):
            if j == i or not mask[b, i, j]:
                continue
            direction = (q[K // H :] + c[h])[int(j > i)]
            key = (x[b, j] @ wk[:, h]) * keep[b, j, h]
            logit = (q[: K // H] + u[h]) @ key / np.sqrt(K / H) + direction
            p = 1 / (1 + np.exp(-logit))
            weights[b, h, i, j] = p * left
            left *= 1 - p
    total = weights.sum(-1, keepdims=True) if layer.normalize_score else 1.0
    return weights / np.maximum(total, 1e-12)


@pytest.mark.parametrize(
    ("causal", "normalize_score"), [(False, True), (True, True), (False, False)]
)
def test_matches_reference(causal, normalize_score):
    layer = masked_attention.build_with_noise(_layer(normalize_score=normalize_score))
    mask = np.broadcast_to(REAL[:, None], [B, S, S])
    mask = mask & np.tril(np.ones([S, S], bool)) if causal else mask
    expected = _reference(layer, X, mask)
    got = layer(X, attention_mask=mask[:, None])
    np.testing.assert_allclose(got.weights, expected, atol=1e-5)
    if causal:
        assert not np.any(got.weights[:, :, 0])
        return
    values = np.reshape(X @ layer.value_projection.kernel.numpy(), [B, S, H, -1])
    mixed = np.einsum("bhij,bjhc->bihc", expected, values).reshape(B, S, D)
    np.testing.assert_allclose(got.output, mixed @ layer.output_projection.kernel, atol=1e-5)


def test_drop_keys_applies_dropout_to_keys():
    layer = masked_attention.build_with_noise(_layer(drop_keys=True, dropout_rate=0.5))
    sampled = []
    layer.weights_dropout = lambda keys, training: sampled.append(keys) or keys * keep
    keep = np.float32(2 * (np.random.default_rng(0).random([B, H, S, K // H]) < 0.5))
    got = layer(X, training=True)
    (keys,) = sampled
    np.testing.assert_array_equal(keys, layer.project_key_value(X).key)
    everything = np.ones([B, S, S], bool)
    expected = _reference(layer, X, everything, keep.transpose(0, 2, 1, 3))
    np.testing.assert_allclose(got.weights, expected, atol=1e-5)
    assert layer.from_config(layer.get_config()).drop_keys


@pytest.mark.parametrize("max_matmul_length", [S, S - 1])
def test_sums_over_nearer_keys_agree_at_all_lengths(monkeypatch, max_matmul_length):
    """Matrix products and cumulative sums give the same weights and gradients.

    Known and unknown lengths are tested.
    """
    layer = masked_attention.build_with_noise(_layer())

    def weights_and_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            weights = layer(x).weights
            loss = tf.reduce_sum(weights**2)
        return weights, tape.gradient(loss, x)

    expected = weights_and_gradient(tf.constant(X))
    monkeypatch.setattr(geometric_attention, "_MAX_MATMUL_LENGTH", max_matmul_length)
    unknown = tf.function(
        weights_and_gradient, input_signature=[tf.TensorSpec([None, None, D])], autograph=False
    )
    for got in (weights_and_gradient(tf.constant(X)), unknown(X)):
        for ours, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_queries_over_columns_of_beams_match_reference():
    """The keys have two columns at each position. A query attends to one of the two columns."""
    layer = masked_attention.build_with_noise(_layer())
    mask = np.tril(np.ones([S, S], bool))
    expected = _reference(layer, X, np.broadcast_to(mask, [B, S, S]))
    q = layer._split_heads(layer.query_projection(X) * (K / H) ** -0.5)
    keys, values = (tf.repeat(part, 2, axis=2) for part in layer.project_key_value(X))
    beams = np.array([0, 1, 1, 0, 1])
    seen = np.arange(2 * S) % 2 == np.repeat(beams, 2)
    queries = np.array([1, 4])
    may_attend = seen & (np.arange(2 * S) // 2 <= queries[:, None])
    positions = attention.Positions(tf.constant(queries, tf.int32), tf.range(2 * S) // 2)
    _, weights = layer.attend(
        tf.gather(q, queries, axis=2),
        attention.KeyValue(keys, values),
        may_attend[None, None],
        positions,
        False,
    )
    found = weights.numpy()[..., seen]
    np.testing.assert_allclose(found, expected[:, :, queries], atol=1e-5)


def test_geometric_attention_rejects_hard_attention():
    with pytest.raises(hparam_schema.HParamError, match="=0.* Received: hard_attention_k=2"):
        examples.make("transformer", "self_attention_type=geometric,hard_attention_k=2")
