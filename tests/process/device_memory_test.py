import numpy as np
import pytest

from ut_keras.process import device_memory
from ut_keras.training import distribution


@pytest.fixture
def meter():
    found = device_memory.of(distribution.get_strategy(devices=["CPU:0"]))
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


def test_a_containers_limit_counts_but_not_the_files_that_it_has_cached(
    meter, tmp_path, monkeypatch
):
    (tmp_path / "memory.max").write_text("1000000000\n")
    (tmp_path / "memory.current").write_text("900000000\n")
    (tmp_path / "memory.stat").write_text("anon 400000000\ninactive_file 500000000\n")
    folders = [(str(tmp_path), *device_memory._CGROUPS[0][1:])]
    monkeypatch.setattr(device_memory, "_CGROUPS", folders)
    assert meter.limit() == pytest.approx(
        600e6 + device_memory._kilobytes("/proc/self/status", "VmRSS"), rel=0.05
    )
    unlimited = meter.limit()
    (tmp_path / "memory.max").write_text("max\n")
    assert meter.limit() > unlimited
