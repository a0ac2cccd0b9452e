import numpy as np

from ut_keras.layers import attention_mask


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
