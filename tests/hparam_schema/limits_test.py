import numpy as np
import pytest

from ut_keras.hparam_schema import limits


@pytest.mark.parametrize(
    "value, bounds, expected",
    [
        (2**31 - 1, {}, None),
        (2**31, {}, "at most 2147483647"),
        (-(10**400), {}, "at least -2147483647"),
        (2**63 - 1, {"most": limits.LARGEST_SEED}, None),
        (0, {"least": 1}, "at least 1"),
        (float("nan"), {"least": 0}, "finite"),
        (np.float32("inf"), {}, "finite"),
        (1e39, {}, "at most 3.4e+38"),
        (0.5, {"least": 0, "most": 1}, None),
        (1.5, {"least": 0, "most": 1}, "at most 1"),
    ],
)
def test_unmet_limit_describes_the_limit(value, bounds, expected):
    assert limits.unmet_limit(value, **bounds) == expected
