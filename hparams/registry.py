"""The registries of hparams sets and of ranges to search.

A set is a function without arguments.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from ut_keras import registry

SETS = registry.Registry("hparams set", flag="hparams_set", function="hparams.get")
RANGES = registry.Registry("hparams range")
register = SETS.register
register_range = RANGES.register


def derived(
    parent: Callable[[], Any], *changes: Callable[[Any], Any], **fields: Any
) -> Callable[[], Any]:
    """Return the function of a new set that is a changed copy of another set.

    `register_derived` registers the new set under the name of its variable.

    Args:
        parent: function of the other set.
        *changes: functions that take and return hparams. They are applied in this order.
        **fields: new values of fields, which are set last.
    """

    def make() -> Any:
        hp = parent()
        for change in changes:
            hp = change(hp)
        return dataclasses.replace(hp, **fields)

    make.__name__ = ""  # the sign by which `register_derived` finds the function
    return make


def register_derived(module: dict[str, Any]) -> None:
    """Register all sets that a module made with `derived`.

    The name of a set is the name of its variable.

    Args:
        module: dict, the `globals()` of the module.
    """
    for name, make in module.items():
        if getattr(make, "__name__", None) == "":
            make.__name__, make.__module__ = name, module["__name__"]
            register(name)(make)
