"""What a user's package asks for and does not get: said in one line, when it is used."""

from collections.abc import Callable
from typing import Any, NoReturn

from ut_keras.errors import UserError

packages_loading = 0  # packages that are being imported; see `usr_dir.load`
_printed: set[str] = set()


def print_once(line: str) -> None:
    """Prints a line about a package, whose sets and problems a command makes several times."""
    if line not in _printed:
        _printed.add(line)
        print(line, flush=True)


class Missing(UserError, ImportError):
    """Something of T2T, or of TensorFlow 1, that is not here; the message names the nearest."""


class Absent:
    """A function, class or value that is not here, and whatever is taken of it.

    It can be imported, named, derived from, and, while its package is imported, called, as by a
    decorator, or reckoned with: what comes of it is absent, too. Nothing is an instance of it. Any
    other use raises `Missing`, comparisons included: what compares as unequal to everything would
    let a package go the wrong way without a word.
    """

    def __init__(self, name: str, error: Callable[[str], Missing]) -> None:
        self._name = name
        self._error = error

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}", self._error)

    def __call__(self, *args: Any, **kwargs: Any) -> "Absent":
        if not packages_loading:
            self._raise_missing()
        print_once(f"note: {self._error(self._name)} The result of this call cannot be used.")
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        # `__new__`, which no base before it in a class of the package takes the place of.
        return (type("Absent", (), {"__new__": lambda *args, **kwargs: self._raise_missing()}),)

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    __subclasscheck__ = __instancecheck__

    def _raise_missing(self, *args: Any) -> NoReturn:
        raise self._error(self._name)


_RAISING_OPERATORS = (
    *("iter", "next", "len", "getitem", "setitem", "contains", "enter", "fspath"),
    *("int", "float", "index", "bool", "str", "format", "hash", "eq", "ne"),
)
_ARITHMETIC_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "matmul"),
    *("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "rand", "ror", "rmatmul"),
    *("lt", "le", "gt", "ge", "neg", "pos", "abs", "invert"),
)
for _names, _method in (
    (_RAISING_OPERATORS, Absent._raise_missing),
    (_ARITHMETIC_OPERATORS, Absent.__call__),
):
    for _name in _names:
        setattr(Absent, f"__{_name}__", _method)
