"""The tables of the named sets (functions without arguments) and of the ranges to search."""

import dataclasses
from collections.abc import Callable
from typing import Any

from ut_keras import registry

SETS = registry.Registry("hparams set")
RANGES = registry.Registry("hparams range")
register = SETS.register
register_range = RANGES.register


def derived(
    parent: Callable[[], Any], *changes: Callable[[Any], Any], **fields: Any
) -> Callable[[], Any]:
    """The function of a set that differs from another; `register_derived` files it by its name.

    Args:
        parent: function of the other one.
        *changes: functions from hparams to hparams, the first one first.
        **fields: what is replaced at last.
    """

    def make() -> Any:
        hp = parent()
        for change in changes:
            hp = change(hp)
        return dataclasses.replace(hp, **fields)

    make.__name__ = ""
    return make


def register_derived(module: dict[str, Any]) -> None:
    """Files the sets that a module, its `globals()`, has by `derived`: each as it is called."""
    for name, make in module.items():
        if getattr(make, "__name__", None) == "":
            make.__name__, make.__module__ = name, module["__name__"]
            register(name)(make)
