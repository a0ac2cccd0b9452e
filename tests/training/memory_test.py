import numpy as np
import pytest

from ut_keras.training import distribution, memory


@pytest.fixture
def meter():
    found = memory.of(distribution.get_strategy(devices=["CPU:0"]))
    if found is None:
        pytest.skip("the memory of a process is known on Linux only")
    return found


def test_peak_sees_what_was_freed_again_since_the_reset(meter):
    meter.reset_peak()
    before = meter.peak()
    block = np.ones(30_000_000)
    del block
    assert 200e6 < meter.peak() - before < 400e6
    meter.reset_peak()
    assert meter.peak() - before < 100e6


def test_limit_is_more_than_is_used(meter):
    assert meter.peak() < meter.limit() < 2**50
