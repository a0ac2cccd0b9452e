"""Placeholders for names that a user's package imports and ut_keras lacks."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from ut_keras.errors import UserError
from ut_keras.text.printed_notes import print_once as print_once

_loading: list[str] = []  # the folders of the packages that are being imported


@contextlib.contextmanager
def package_loading(folder: str) -> Iterator[None]:
    """Return a context in which a package is imported, see `Absent`."""
    _loading.append(folder)
    try:
        yield
    finally:
        _loading.remove(folder)


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
        if not _loading:
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

    # Python looks up the methods of operators in the class and does not call `__getattr__`.
    __iter__ = __next__ = __len__ = __getitem__ = __setitem__ = __contains__ = _raise_missing
    __int__ = __float__ = __index__ = __bool__ = __str__ = __format__ = _raise_missing
    __enter__ = __fspath__ = __hash__ = __eq__ = __ne__ = _raise_missing

    # Arithmetic is allowed while the package is being imported, as calls are.
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __call__
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __call__
    __and__ = __or__ = __matmul__ = __rand__ = __ror__ = __rmatmul__ = __call__
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __pos__ = __abs__ = __invert__ = __call__
