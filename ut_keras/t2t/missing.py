"""Placeholders for names that a user's package imports and ut_keras lacks."""

from collections.abc import Callable
from typing import Any, NoReturn

from ut_keras.errors import UserError
from ut_keras.text.printed_notes import print_once as print_once

packages_loading = 0  # number of packages that are being imported (see `usr_dir.load`)


class Missing(UserError, ImportError):
    """A name of T2T or TensorFlow 1 is not supported.

    The message names an alternative.
    """


class Absent:
    """A placeholder for an unsupported function, class or value.

    A package can import the placeholder, access its attributes and derive classes from it. While
    the package is being imported, the placeholder can also be called (for example, as a decorator)
    and used in arithmetic. The result is a placeholder again. No object is an instance of the
    placeholder. Any other use raises `Missing`. This includes `==`, because a package could
    silently take the wrong branch if the placeholder were unequal to everything.

    Args:
        name: str. The unsupported name.
        error: function from a name to the `Missing` to raise.
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
        # The class defines `__new__`, because other base classes rarely override this method.
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
# Python looks up the methods of operators in the class and does not call `__getattr__` for them.
for _names, _method in (
    (_RAISING_OPERATORS, Absent._raise_missing),
    (_ARITHMETIC_OPERATORS, Absent.__call__),
):
    for _name in _names:
        setattr(Absent, f"__{_name}__", _method)
