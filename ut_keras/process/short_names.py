"""`problems`, `hparams` and `pretrained` at top level: in a checkout they lie there.

They are `ut_keras.problems`, `ut_keras.hparams` and `ut_keras.pretrained`. By the short names one
gets the same modules, not second ones: in a checkout, and in packages of a user that were written
when they were installed so.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

NAMES = ("problems", "hparams", "pretrained")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `problems.x` as `ut_keras.problems.x`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in NAMES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"ut_keras.{spec.name}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # its own, which the import has replaced


_FINDER = _Finder()


def same(name: str) -> None:
    """Makes a module of a short name the long one's; first thing in each of the packages."""
    if name in NAMES:
        sys.meta_path.insert(0, _FINDER)
        sys.modules[name] = importlib.import_module(f"ut_keras.{name}")


def allow() -> None:
    """Lets the short names be found where nothing else has them."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)
