import os

import pytest

from ut_keras.process import device_memory

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/meminfo"), reason="the memory of a process is known on Linux only"
)


def test_limit_is_more_than_is_used():
    used = device_memory._kilobytes("/proc/self/status", "VmRSS")
    assert used < device_memory.limit() < 2**50


def test_a_containers_limit_counts_but_not_the_files_that_it_has_cached(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("1000000000\n")
    (tmp_path / "memory.current").write_text("900000000\n")
    (tmp_path / "memory.stat").write_text("anon 400000000\ninactive_file 500000000\n")
    folders = [(str(tmp_path), *device_memory._CGROUPS[0][1:])]
    monkeypatch.setattr(device_memory, "_CGROUPS", folders)
    assert device_memory.limit() == pytest.approx(
        600e6 + device_memory._kilobytes("/proc/self/status", "VmRSS"), rel=0.05
    )
    (tmp_path / "memory.max").write_text("max\n")
    assert device_memory.limit() > 2e9
