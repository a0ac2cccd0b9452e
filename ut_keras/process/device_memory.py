"""How much memory the devices of a run have, and the most that was in use.

A GPU's allocator counts; on the CPU it is the operating system (Linux, elsewhere nothing is known).
"""

import os
import re
from typing import Any

import tensorflow as tf

# Of a container, in the second and the first version of control groups: folder, files with the
# limit and the use, and the line of memory.stat with what of it are files that can be dropped.
_CGROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    (
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def of(strategy: tf.distribute.Strategy) -> Any:
    """The memory meter for the devices of a strategy, or None where nothing can be known."""
    device = tf.DeviceSpec.from_string(strategy.extended.worker_devices[0])
    if device.device_type == "GPU":
        return _Gpu(f"GPU:{device.device_index}")
    if device.device_type == "CPU" and _Cpu.is_known():
        return _Cpu()
    return None


class _Gpu:
    """The first GPU; the others have as much to do."""

    # Too large a batch is an error there, which can be caught.
    may_be_tried = True

    def __init__(self, name):
        self._name = name

    def limit(self):
        """Bytes that the allocator may use, or None."""
        from tensorflow.python.client import device_lib

        found = [d for d in device_lib.list_local_devices() if d.name.endswith(self._name)]
        return found[0].memory_limit if found else None

    def reset_peak(self):
        tf.config.experimental.reset_memory_stats(self._name)

    def peak(self):
        """Bytes in use at the worst moment since `reset_peak`."""
        return tf.config.experimental.get_memory_info(self._name)["peak"]


class _Cpu:
    """The memory of this process."""

    # Linux kills a process that uses too much.
    may_be_tried = False

    @staticmethod
    def is_known():
        return os.path.exists("/proc/self/clear_refs")

    def limit(self):
        """Bytes that this process may use: what it does, and what is left."""
        left = [_kilobytes("/proc/meminfo", "MemAvailable")]
        left += [room for cgroup in _CGROUPS if (room := _left_in(*cgroup)) is not None]
        return min(left) + _kilobytes("/proc/self/status", "VmRSS")

    def reset_peak(self):
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")

    def peak(self):
        """Bytes in use at the worst moment since `reset_peak`."""
        return _kilobytes("/proc/self/status", "VmHWM")


def _left_in(folder, most, used, droppable):
    """Bytes that a container may still use, or None if it has no limit."""
    paths = [os.path.join(folder, name) for name in (most, used, "memory.stat")]
    if not all(os.path.exists(path) for path in paths[:2]):
        return None
    limit = _read(paths[0]).strip()
    if limit == "max":
        return None
    stat = _read(paths[2]) if os.path.exists(paths[2]) else ""
    files = re.search(rf"^{droppable} (\d+)", stat, re.MULTILINE)
    return int(limit) - int(_read(paths[1])) + int(files[1] if files else 0)


def _kilobytes(path, name):
    (number,) = re.findall(rf"^{name}:\s+(\d+) kB", _read(path), re.MULTILINE)
    return int(number) * 1024


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()
