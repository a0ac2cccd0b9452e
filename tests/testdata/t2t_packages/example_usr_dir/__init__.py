"""In the manner of T2T's example: a submodule, a set with a new field, one call for all splits."""

from . import counted_lines  # noqa: F401
