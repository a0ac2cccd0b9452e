import numpy as np

from tests.layers import layer_checks
from ut_keras.layers.basic import target_shift


def test_moves_by_one_position():
    x = layer_checks.normal(2, 3, 4)
    shifted = target_shift.shift_right(x)
    np.testing.assert_array_equal(shifted[:, 0], np.zeros((2, 4)))
    np.testing.assert_array_equal(shifted[:, 1:], x[:, :-1])
