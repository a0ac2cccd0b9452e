"""The process and its surroundings: signals, waiting, its line on the screen."""

import os


def num_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
