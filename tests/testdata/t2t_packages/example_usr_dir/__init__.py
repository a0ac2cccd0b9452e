"""A package like T2T's example. It has a submodule, and a set that adds an hparam.

Its problem generates all splits in one call.
"""

from . import counted_lines  # noqa: F401
