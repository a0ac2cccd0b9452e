"""Provides the top-level names `problems`, `hparams` and `pretrained`.

These names stand for the packages `ut_keras.problems`, `ut_keras.hparams` and
`ut_keras.pretrained`. In a checkout, the folders of these packages are at the top level, so Python
can import the packages by their short names. Packages that users wrote for an older version of
ut_keras also use the short names. Both names of a package must refer to the same module objects,
because a second copy would register every problem again. So the short names become additional
entries of `sys.modules`.
"""

import importlib
import importlib.util
import sys

NAMES = ("problems", "hparams", "pretrained")


def alias(name: str) -> None:
    """Make a short name stand for a package of `ut_keras`, with all its modules.

    Each of the packages calls this function with `__name__` at the end of its `__init__.py`.

    Args:
        name: str. One of `NAMES`. For any other name, such as "ut_keras.problems", the function
            does nothing.
    """
    if name not in NAMES:
        return
    long_name = f"ut_keras.{name}"
    importlib.import_module(long_name)
    for known in list(sys.modules):
        if known == long_name or known.startswith(f"{long_name}."):
            sys.modules[known.removeprefix("ut_keras.")] = sys.modules[known]


def alias_missing() -> None:
    """Make each short name importable, unless the path has a module of this name."""
    for name in NAMES:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            alias(name)
