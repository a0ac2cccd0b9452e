import numpy as np

from ut_keras.layers.halting import ponder_cost

PONDER_TIMES = np.float32([[2, 3, 5], [1, 4, 5]])
REMAINDERS = np.float32([[0.5, 0.25, 0], [1, 0.5, 0]])
COST = PONDER_TIMES + REMAINDERS


def _value(*arguments, **keywords):
    term = ponder_cost.term(*arguments, **keywords)
    return term.numerator / term.denominator


def test_mean_of_all():
    np.testing.assert_allclose(_value(COST, 0.01), 0.01 * 22.25 / 6, rtol=1e-6)
    np.testing.assert_allclose(_value(COST[:, 0], 0.1), 0.1 * 4.5 / 2, rtol=1e-6)  # of examples


def test_padding_may_be_left_out():
    real = np.array([[True, True, True], [True, False, False]])
    np.testing.assert_allclose(_value(COST, 0.01, real), 0.01 * (10.75 + 2) / 4, rtol=1e-6)


def test_rows_weigh():
    rows = np.float32([3, 1])
    expected = 0.01 * (3 * 10.75 + 11.5) / (3 * 3 + 3)
    np.testing.assert_allclose(_value(COST, 0.01, rows=rows), expected, rtol=1e-6)
    np.testing.assert_allclose(_value(COST[:, 0], 0.1, rows=rows), 0.1 * (3 * 2.5 + 2) / 4)
