"""How much memory this process may use on the CPU, by the operating system; known on Linux only."""

import os
import re

_MEMORY, _STATUS = "/proc/meminfo", "/proc/self/status"
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


def limit() -> int | None:
    """Bytes that this process may use: what it does, and what is left; None where unknown."""
    if not os.path.exists(_MEMORY):
        return None
    left = [_kilobytes(_MEMORY, "MemAvailable")]
    left += [room for cgroup in _CGROUPS if (room := _left_in(*cgroup)) is not None]
    return min(left) + _kilobytes(_STATUS, "VmRSS")


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
