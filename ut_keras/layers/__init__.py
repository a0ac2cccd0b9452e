"""Layers of the Transformer and the Universal Transformer, one concept a file, in rooms.

They take explicit arguments and never see hparams. Shapes: B batch, S input_length,
T target_length, H num_heads, D hidden_size, F filter_size, V vocab_size, N recurrence steps.
"""

import importlib
import importlib.util
import pkgutil
import warnings
from collections.abc import Callable
from typing import Any


def __getattr__(name: str) -> Any:
    """A module by where it was before there were rooms: `from ut_keras.layers import act`."""
    rooms = [room.name for room in pkgutil.iter_modules(__path__)]
    if not name.startswith("_") and name not in rooms:
        for room in rooms:
            where = f"{__name__}.{room}.{name}"
            if importlib.util.find_spec(where):
                _warn(f"{__name__}.{name}", where)
                return importlib.import_module(where)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def members_before(room: str) -> Callable[[str], Any]:
    """The `__getattr__` of a room that has the name of a module, which lies in it now.

    Args:
        room: str, the room's `__name__`.
    """

    def get(name: str) -> Any:
        where = f"{room}.{room.rpartition('.')[2]}"
        if name.startswith("_") or importlib.util.find_spec(f"{room}.{name}"):
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        member = getattr(importlib.import_module(where), name)
        _warn(f"{room}.{name}", where)
        return member

    return get


def _warn(old, new):
    warnings.warn(f"{old} is in {new} now", DeprecationWarning, stacklevel=3)
