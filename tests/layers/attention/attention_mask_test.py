import numpy as np
import pytest

from tests.layers import layer_checks
from ut_keras.layers.attention import attention_mask


def test_padding():
    mask = attention_mask.padding_attention_mask(np.array([[True, True, False]]))
    np.testing.assert_array_equal(mask, [[[[True, True, False]]]])


def test_causal():
    mask = attention_mask.causal_attention_mask(3)
    expected = [[True, False, False], [True, True, False], [True, True, True]]
    np.testing.assert_array_equal(mask, [[expected]])


def test_segments():
    mask = attention_mask.segment_attention_mask(np.array([[1, 2]]), np.array([[1, 1, 2, 0]]))
    expected = [[True, True, False, False], [False, False, True, False]]
    np.testing.assert_array_equal(mask, [[expected]])


def test_a_mask_that_might_be_one_of_heads():
    """Keras' [B, T, S] would be broadcast as [H, T, S] where B = H."""
    layer, x = layer_checks.make_block(4), layer_checks.normal(2, 3, 4)
    self_attention = layer.layers[0].self_attention
    for call in (layer, self_attention):
        with pytest.raises(ValueError, match=r"passed as mask\[:, None\]. Received: \(2, 3, 3\)"):
            call(x, attention_mask=np.ones((2, 3, 3), bool))
