"""Names to things: one table per kind, filled by decorators, without TensorFlow.

    problems = Registry("problem")

    @problems.register("algorithmic_reverse_binary40")
    def reverse_binary(): ...

T2T keeps one global registry with rules for turning class names into names; here a name is always
written out, so that it can be searched for.
"""

import difflib
import fnmatch
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from ut_keras.errors import UserError

T = TypeVar("T")


class UnknownNameError(UserError):
    """A name that no table holds; the message lists the nearest ones."""


class Registry:
    """A table from name to a registered object.

    Args:
        kind: str. What the table holds, for error messages ("problem", "hparams set").
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Any] = {}
        self._unsupported: dict[str, str] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that files its object under `name`.

        Raises:
            ValueError: if the name is taken.
        """

        def decorator(entry):
            self.add(name, entry)
            return entry

        return decorator

    def add(self, name: str, entry: Any) -> None:
        """Files `entry` under `name`.

        Raises:
            ValueError: if the name is taken, other than by an earlier run of the same cell of a
                notebook.
        """
        if name in self._entries and not is_notebook_rerun(self._entries[name], entry):
            raise ValueError(f"Every {self.kind} must have its own name. Received: {name!r} twice.")
        self._entries[name] = entry

    def replace(self, name: str, entry: Any) -> None:
        """Files `entry` under `name`, in place of what there is."""
        self._entries[name] = entry

    def mark_unsupported(self, pattern: str, reason: str) -> None:
        """Says why nothing is filed under a name, or under those that fit a pattern such as `a_*`.

        What is filed there all the same is found.
        """
        self._unsupported[pattern] = reason

    def unsupported(self) -> dict[str, str]:
        """Returns {name or pattern: reason}, of what is not filed."""
        return dict(self._unsupported)

    def unsupported_reason(self, name: str) -> str | None:
        """Why nothing is filed under a name; None if that was not said."""
        for pattern, reason in self._unsupported.items():
            if fnmatch.fnmatchcase(str(name), pattern):
                return reason
        return None

    def get(self, name: str) -> Any:
        """Returns what is filed under `name`.

        Raises:
            UnknownNameError: if nothing is; the message lists the nearest names, or says why.
        """
        if name not in self:
            reason = self.unsupported_reason(name)
            # A slip in a name that is here, such as a package's, is not one of T2T's others.
            if reason and not difflib.get_close_matches(str(name), self._entries, cutoff=0.95):
                raise UnknownNameError(f"The {self.kind} {name!r} is not supported: {reason}.")
            raise UnknownNameError(unknown_name_message(self.kind, name, self._entries))
        return self._entries[name]

    def names(self) -> list[str]:
        """Returns all names, sorted."""
        return sorted(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries


def is_notebook_rerun(before: Any, now: Any) -> bool:
    """Whether a function or class was defined by the same lines of a notebook, run again."""

    def place(entry):
        return getattr(entry, "__module__", None), getattr(entry, "__qualname__", None)

    return place(before) == place(now) and place(now)[0] == "__main__"


def unknown_name_message(kind: str, name: object, known: Collection[str]) -> str:
    """One line that says which names are near `name`."""
    near = difflib.get_close_matches(str(name), known, n=5, cutoff=0.5)
    if near:
        return f"Unknown {kind}: {name!r}. The nearest names: {', '.join(near)}."
    shown = ", ".join(sorted(known)[:10])
    return f"Unknown {kind}: {name!r}. There are {len(known)} names, for example: {shown}."
