"""The sets that start deep differ from T2T's in the halting bias only."""

import pytest

from ut_keras import hparams


@pytest.mark.parametrize("size", ["base", "small", "tiny"])
def test_only_the_halting_bias_differs(size):
    of_t2t = hparams.get(f"adaptive_universal_transformer_{size}").to_dict()
    deep = hparams.get(f"adaptive_universal_transformer_{size}_deepstart").to_dict()
    assert {k: v for k, v in deep.items() if v != of_t2t[k]} == {"act_halting_bias_init": -3.0}
