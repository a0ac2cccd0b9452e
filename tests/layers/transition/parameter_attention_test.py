import numpy as np
import pytest

from tests.layers import layer_checks
from ut_keras.layers.transition import parameter_attention

B, S, D, H, M = 3, 5, 8, 2, 6


def _layer(dtype="float32", **arguments):
    arguments = {"key_channels": 4, "value_channels": 6, **arguments}
    return parameter_attention.ParameterAttention(H, M, D, dtype=dtype, **arguments)


def test_layer_behaviors():
    layer_checks.check_layer(_layer, {"x": layer_checks.normal(B, S, D)}, num_weights=4)


def test_matches_reference():
    layer = _layer()
    layer.build((None, None, D))
    layer_checks.shake(layer)
    x = layer_checks.normal(B, S, D)
    q = (x @ layer.query_projection.kernel.numpy()).reshape(B, S, H, 2)
    heads = []
    for head in range(H):
        logits = q[:, :, head] @ layer.key.numpy()[head].T
        weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        heads.append(weights @ layer.value.numpy()[head])
    expected = np.concatenate(heads, -1) @ layer.output_projection.kernel.numpy()
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_dropout_drops_rows_for_all_positions():
    # Every value is 1. Therefore, every output is the sum of the weights that dropout kept.
    layer = _layer(dropout_rate=0.5, value_channels=D)
    layer.build((None, None, D))
    layer.query_projection.kernel.assign(np.zeros((D, 4)))
    layer.value.assign(np.ones(layer.value.shape))
    layer.output_projection.kernel.assign(np.eye(D))
    out = np.asarray(layer(layer_checks.normal(B, S, D), training=True))
    np.testing.assert_allclose(out, np.broadcast_to(out[:1, :1], out.shape), rtol=1e-6)
    kept = out[0, 0, [0, -1]] * M / 2  # the number of kept rows of each head
    np.testing.assert_allclose(kept, kept.round(), atol=1e-4)
    assert np.abs(out - np.asarray(layer(layer_checks.normal(B, S, D)))).max() > 0


def test_parameter_attention_rejects_indivisible_channels():
    with pytest.raises(ValueError, match="value_channels must be divisible by num_heads.*=7"):
        _layer(value_channels=7)
