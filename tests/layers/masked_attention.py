"""Inputs and helpers for tests of self-attention that depends on positions."""

import numpy as np

from tests.layers import layer_checks
from ut_keras.layers.attention import attention

B, S, D, H, K = 3, 5, 6, 2, 8  # batch, length, hidden size, heads, key channels
X = layer_checks.normal(B, S, D)
REAL = np.arange(S) < [[5], [4], [1]]


def build_with_noise(layer):
    """Build the layer and add noise to its weights."""
    layer.build(X.shape)
    return layer_checks.shake(layer)


def attend(layer, query, padding_mask, training=False):
    mask = attention.padding_attention_mask(padding_mask)
    return layer(query, attention_mask=mask, training=training)


def check_layer(make_layer, num_weights):
    layer_checks.check_layer(
        make_layer,
        {"query": X, "padding_mask": REAL},
        num_weights=num_weights,
        call=attend,
        mixed_dtypes=("bfloat16", "float32"),
    )
