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


class DerivedSet:
    """A function that returns a changed copy of another hparams set.

    Args: as for `derived`.

    Attributes:
        __name__: str. The name of the set, or "" until `register_derived` is called.
    """

    def __init__(
        self,
        parent: Callable[[], Any],
        changes: tuple[Callable[[Any], Any], ...],
        fields: dict[str, Any],
    ) -> None:
        self.__name__ = ""
        self._parent = parent
        self._changes = changes
        self._fields = fields

    def __call__(self) -> Any:
        """Return the hparams of the set."""
        hp = self._parent()
        for change in self._changes:
            hp = change(hp)
        return dataclasses.replace(hp, **self._fields)


def derived(parent: Callable[[], Any], *changes: Callable[[Any], Any], **fields: Any) -> DerivedSet:
    """Return a function that makes a changed copy of another hparams set.

    `register_derived` registers the new set under the name of its variable.

    Args:
        parent: function of the other set.
        *changes: functions that take and return hparams. They are applied in this order.
        **fields: new values of fields, which are set last.
    """
    return DerivedSet(parent, changes, fields)


def register_derived(module: dict[str, Any]) -> None:
    """Register all sets that a module made with `derived`.

    The name of a set is the name of its variable.

    Args:
        module: dict, the `globals()` of the module. It may also contain sets that have no variable.
    """
    for name, value in module.items():
        # A set that the module has imported from another module already has a name.
        if isinstance(value, DerivedSet) and not value.__name__:
            value.__name__, value.__module__ = name, module["__name__"]
            register(name)(value)
