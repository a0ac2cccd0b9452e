import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from tests.models import examples
from ut_keras import hparam_schema
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.attention import rotary_attention

B, S, D, H, K = 2, 5, 6, 2, 8
X = layer_checks.normal(B, S, D)


def _layer(dtype="float32"):
    return rotary_attention.RotaryAttention(H, D, key_channels=K, dtype=dtype)


def test_layer_behaviors():
    layer_checks.check_layer(
        _layer, {"query": X}, num_weights=4, mixed_dtypes=("bfloat16", "float32")
    )


def _rotated(x, positions):
    """Rotate x [B, S, K] and return the result as [B, S, H, d].

    The function treats each pair of channels as a complex number.
    """
    d = K // H
    heads = np.reshape(x, [len(x), -1, H, d])
    numbers = heads[..., : d // 2] + 1j * heads[..., d // 2 :]
    angles = np.outer(positions, 10000.0 ** (-2 * np.arange(d // 2) / d))
    numbers = numbers * np.exp(1j * angles)[:, None]
    return np.concatenate([numbers.real, numbers.imag], axis=-1)


def test_matches_reference():
    layer = _layer()
    layer.build(X.shape)
    layer_checks.shake(layer)
    wq, wk, wv, wo = layer.get_weights()
    q, k = (_rotated(X @ w, np.arange(S)) for w in (wq, wk))
    logits = np.einsum("bihc,bjhc->bhij", q, k) / np.sqrt(K / H)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    mixed = np.einsum("bhij,bjhc->bihc", weights, np.reshape(X @ wv, [B, S, H, -1]))
    got = layer(X)
    np.testing.assert_allclose(got.weights, weights, atol=1e-5)
    np.testing.assert_allclose(got.output, np.reshape(mixed, [B, S, D]) @ wo, atol=1e-5)


def test_logits_depend_only_on_distances():
    layer = _layer()
    q, k = (layer_checks.normal(1, S, K, seed=seed) for seed in (1, 2))

    def logits(first):
        window = cache_lib.Window(None, first + tf.range(S), None, None, None)
        cache = cache_lib.LayerCache({}, 0, cache_lib.Layout({}, window))
        rotated = (tf.reshape(layer.encode_positions(x, cache), [S, H, -1]) for x in (q, k))
        return tf.einsum("ihc,jhc->hij", *rotated)

    np.testing.assert_allclose(logits(0), logits(100), atol=1e-4)
    assert np.abs(logits(0) - np.einsum("ic,jc->ij", q[0], k[0])).max() > 0.1


def test_rotary_attention_rejects_bad_arguments():
    with pytest.raises(ValueError, match="Received: key_channels=6, num_heads=2"):
        rotary_attention.RotaryAttention(2, 6)
    with pytest.raises(hparam_schema.HParamError, match="Received: key_channels=18"):
        examples.make("transformer", "pos=rotary,attention_key_channels=18")
    relative = "self_attention_type=dot_product_relative,max_relative_position=2"
    message = "pos='rotary'.*Received: self_attention_type='dot_product_relative'"
    with pytest.raises(hparam_schema.HParamError, match=message):
        examples.make("transformer", f"pos=rotary,{relative}")
