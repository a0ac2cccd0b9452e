"""The class `Registry`: a table from name to object, for one kind of object.

    problems = Registry("problem")

    @problems.register("algorithmic_reverse_binary40")
    def reverse_binary(): ...

T2T has one global registry that derives names from class names. ut_keras also derives the name if a
decorator gets none. The names in ut_keras itself are written in full, so that a text search finds
them. This module does not import TensorFlow.
"""

import difflib
import fnmatch
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, overload

from ut_keras.errors import UserError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# The least similarity of a name that an error suggests, from 0 to 1. With 0.5, names that have
# only some letters in common are suggested.
_SIMILARITY = 0.6
_MOST_SHOWN = 3  # how many names of another kind an error shows at most
# If no name is similar, an error lists all names, unless there are more names than this number.
_MOST_NAMES = 20
_LONGEST_SHOWN = 200  # the longest text of an object that an error shows instead of a name

# Matches before a capital letter that is followed by a small letter or digit, and between a small
# letter or digit and a capital letter.
_BOUNDARY = re.compile(r"(?<=.)(?=[A-Z][a-z0-9]+)|(?<=[a-z0-9])(?=[A-Z])")


_REGISTRIES_BY_FLAG: dict[str, "Registry"] = {}  # the registries whose names are values of flags


class UnknownNameError(UserError):
    """A name is not registered. The message lists the nearest names."""


class UnsupportedNameError(UnknownNameError):
    """A name of T2T is not supported. The message gives the reason."""


class OtherKindError(UnknownNameError):
    """A name belongs to an object of another kind.

    The message names the flag for this kind.
    """


class Registry:
    """A table from name to registered object.

    Args:
        kind: str. The kind of the registered objects, for error messages ("problem").
        flag: str. The flag of the commands that takes a name of this registry, or "". If a name is
            unknown in another registry, but known in a registry with a flag, the error says so.
        function: str. The Python function that takes a name of this registry, for these errors.
    """

    def __init__(self, kind: str, flag: str = "", function: str = "") -> None:
        self.kind = kind
        self.flag, self.function = flag, function
        if flag:
            _REGISTRIES_BY_FLAG[flag] = self
        self._entries: dict[str, Any] = {}
        self._unsupported: dict[str, str] = {}

    @overload
    def register(self, name: str | None = None) -> Callable[[T], T]: ...

    @overload
    def register(self, name: F) -> F: ...

    def register(self, name: Any = None) -> Any:
        """Return a decorator that registers the decorated object under `name`.

        Args:
            name: str. Without a name, as in `@register` and `@register()`, the name is derived from
                the class or function, as in T2T. See `default_name`.

        Raises:
            ValueError: if the name is already registered, or is not a string.
        """
        return decorator(name, self.add)

    def add(self, name: str, entry: Any) -> None:
        """Register `entry` under `name`.

        Raises:
            ValueError: if the name is already registered, unless the same notebook cell runs again.
        """
        if name in self._entries and not is_notebook_rerun(self._entries[name], entry):
            raise ValueError(f"Every {self.kind} must have its own name. Received: {name!r} twice.")
        self._entries[name] = entry

    def replace(self, name: str, entry: Any) -> None:
        """Register `entry` under `name` and replace an earlier entry."""
        self._entries[name] = entry

    def mark_unsupported(self, pattern: str, reason: str) -> None:
        """Declare that a name, or every name that matches a pattern, is not supported.

        An example of a pattern is `a_*`. A registered name stays available even if it matches
        the pattern.
        """
        self._unsupported[pattern] = reason

    def mark_all_unsupported(self, reasons: Mapping[str, str]) -> None:
        """Declare that many names are not supported.

        Args:
            reasons: dict from names or patterns, separated by spaces, to the reason.
        """
        for patterns, reason in reasons.items():
            for pattern in patterns.split():
                self.mark_unsupported(pattern, reason)

    def unsupported(self) -> dict[str, str]:
        """Return {name or pattern: reason} of the names that are not supported."""
        return dict(self._unsupported)

    def unsupported_reason(self, name: str) -> str | None:
        """Return the reason why a name is not supported, or None if there is no reason."""
        for pattern, reason in self._unsupported.items():
            if fnmatch.fnmatchcase(str(name), pattern):
                return reason
        return None

    def get(self, name: str) -> Any:
        """Return the object that is registered under `name`.

        Raises:
            UnknownNameError: if the name is not registered. The message lists the nearest names, or
                gives the reason why the name is not supported.
        """
        if not isinstance(name, str) and len(repr(name)) > _LONGEST_SHOWN:
            raise UnknownNameError(
                f"The name of a {self.kind} must be a string. Received: {type(name).__name__}."
            )
        if name not in self:
            reason = self.unsupported_reason(name)
            # A name that is almost equal to a registered name is a typing error. Such a name may
            # also match a pattern of unsupported names, but the nearest names are more helpful.
            exact = str(name) in self._unsupported
            near = difflib.get_close_matches(str(name), self._entries, cutoff=0.95)
            if reason and (exact or not near):
                raise UnsupportedNameError(f"The {self.kind} {name!r} is not supported: {reason}.")
            message = unknown_name_message(self.kind, name, self._entries, self._how_to_list())
            for other in _REGISTRIES_BY_FLAG.values():
                if name in other:
                    raise OtherKindError(f"{message} {other.hint(name)}")
            others = [other for other in _REGISTRIES_BY_FLAG.values() if other is not self]
            hints = [hint for other in others if (hint := other.hint_of_prefix(name))]
            raise UnknownNameError(" ".join([message, *hints]))
        return self._entries[name]

    def _how_to_list(self):
        """Return a sentence that says how to list all names, or "" without a flag."""
        if not self.flag:
            return ""
        function = f"{self.function.partition('.')[0]}.names()"
        return f"To list all names, pass --registry_help, or call {function} in Python."

    def hint(self, name: str) -> str:
        """Return a sentence that says how to use a name of this registry.

        Errors of other registries contain it.
        """
        kind = _with_article(self.kind)
        return (
            f"{name!r} is {kind}: pass --{self.flag}={name}, or call {self.function}({name!r}) in "
            "Python."
        )

    def hint_of_prefix(self, prefix: object) -> str:
        """Return a sentence with names of this registry that have a prefix, or "".

        Errors of other registries contain it.
        """
        found = [name for name in self.names() if name.startswith(f"{prefix}_")]
        if not found:
            return ""
        shown = ", ".join(sorted(found, key=len)[:_MOST_SHOWN])
        return f"For --{self.flag}, there are names that begin with {prefix!r}, such as {shown}."

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries


def decorator(given: Any, add: Callable[[str, Any], object]) -> Any:
    """Return a decorator that calls `add(name, entry)` and returns the entry.

    Args:
        given: the argument of the decorator. A str is the name. With None, the decorator derives
            the name from the entry. If the decorator has no brackets, `given` is the entry itself:
            a class, or a function or other callable object with `__name__`.
        add: function of a name and an entry.

    Raises:
        ValueError: if `given` is something else.
    """
    if callable(given) and hasattr(given, "__name__"):
        add(default_name(given), given)
        return given
    if given is not None and not isinstance(given, str):
        raise ValueError(f"name must be a string. Received: {given!r}.")

    def decorate(entry):
        add(default_name(entry) if given is None else given, entry)
        return entry

    return decorate


def default_name(entry: Any) -> str:
    """Return T2T's name of a class or function: `small_vocab` for `SmallVocab`."""
    return camelcase_to_snakecase(entry.__name__)


def camelcase_to_snakecase(name: str) -> str:
    """Convert a name such as TranslateEnFa8k to translate_en_fa8k."""
    return _BOUNDARY.sub("_", name).lower()


def is_notebook_rerun(before: Any, now: Any) -> bool:
    """Return whether a function or class was defined again by the same notebook cell."""

    def qualified_name(entry):
        return getattr(entry, "__module__", None), getattr(entry, "__qualname__", None)

    return qualified_name(before) == qualified_name(now) and qualified_name(now)[0] == "__main__"


def _with_article(kind):
    """Return a kind with "a" or "an". The "h" in "hparams" is spoken with a vowel."""
    return f"{'an' if kind[0] in 'aeho' else 'a'} {kind}"


def nearest_names(name: str, known: Collection[str]) -> list[str]:
    """Return the known names that are similar to `name`, or that contain it as a part."""
    near = difflib.get_close_matches(name, known, n=5, cutoff=_SIMILARITY)
    # A word of a longer name is not similar to the name: "dtype" and "activation_dtype".
    longer = [each for each in sorted(known) if f"_{name}_" in f"_{each}_" and each not in near]
    return near + longer[:5]


def nearest_names_sentence(near: Collection[str]) -> str:
    """Return the sentence that lists the nearest names, or "" without names."""
    if not near:
        return ""
    return f"The nearest name{'s' if len(near) > 1 else ''}: {', '.join(near)}."


def unknown_name_message(
    kind: str, name: object, known: Collection[str], how_to_list: str = ""
) -> str:
    """Return the line of an error about an unknown name.

    The line lists the known names that are near to `name`. If no name is near, the line lists all
    known names, or ends with `how_to_list` if there are more than 20.

    Args:
        kind: str, the kind of the name, such as "problem".
        name: the unknown name.
        known: the known names.
        how_to_list: str, a sentence that says how to list all names.
    """
    if near := nearest_names(str(name), known):
        return f"Unknown {kind}: {name!r}. {nearest_names_sentence(near)}"
    names = sorted(known)
    if len(names) <= _MOST_NAMES:
        return f"Unknown {kind}: {name!r}. All names: {', '.join(names)}."
    message = f"Unknown {kind}: {name!r}. None of the {len(names)} names is similar."
    return f"{message} {how_to_list}".rstrip()
