"""The top-level names `problems`, `hparams` and `pretrained`.

These packages are `ut_keras.problems`, `ut_keras.hparams` and `ut_keras.pretrained`. In a checkout
they can also be imported by their short names, because their folders stand at the top. Packages
that users wrote for an older installation use the short names, too. Both names must give the same
module objects: a second copy would register every problem a second time. So the short names become
further entries of `sys.modules`.
"""

import importlib
import importlib.util
import sys

NAMES = ("problems", "hparams", "pretrained")


def alias(name: str) -> None:
    """Make a short name, and those of its modules, mean the modules of `ut_keras`.

    The packages call it with `__name__` in the last line of their `__init__.py`.

    Args:
        name: str. One of `NAMES`; any other name, such as "ut_keras.problems", changes nothing.
    """
    if name not in NAMES:
        return
    long_name = f"ut_keras.{name}"
    importlib.import_module(long_name)
    for known in list(sys.modules):
        if known == long_name or known.startswith(f"{long_name}."):
            sys.modules[known.removeprefix("ut_keras.")] = sys.modules[known]


def alias_missing() -> None:
    """Make the short names importable that no module on the path has."""
    for name in NAMES:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            alias(name)
