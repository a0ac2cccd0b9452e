"""Old names of attributes, which work for one version with a DeprecationWarning."""

import warnings
from typing import Any, ClassVar


class RenamedAttributes:
    """Mixin that supports the old names of attributes, with a warning.

    Code can read and assign an attribute by its old name. A subclass can also override an attribute
    by its old name.

    A class lists its renamed attributes in `renamed_attributes`, a dict from old to new name.
    """

    renamed_attributes: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for old, new in cls.renamed_attributes.items():
            if old in vars(cls):
                warn(f"{cls.__name__}.{old}", new)
                setattr(cls, new, vars(cls)[old])

    # Python calls `__getattr__` only if the object has no attribute of this name.
    def __getattr__(self, name: str) -> Any:
        new = type(self).renamed_attributes.get(name)
        if new is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        warn(f"{type(self).__name__}.{name}", new)
        return getattr(self, new)

    def __setattr__(self, name: str, value: Any) -> None:
        new = type(self).renamed_attributes.get(name)
        if new is not None:
            warn(f"{type(self).__name__}.{name}", new)
        super().__setattr__(new or name, value)


def warn(old: str, new: str) -> None:
    """Warn that code uses an old name.

    The warning shows the line that uses the old name. This line is in the caller of the caller of
    `warn`.
    """
    message = f"{old} has been renamed to {new}. The old name will be removed in the next version."
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def get(owner: Any, new: str, old: str) -> Any:
    """Return an attribute of a user's object that may still have the old name.

    The result is None if the object has neither name.
    """
    if not hasattr(owner, new) and hasattr(owner, old):
        warn(f"{type(owner).__name__}.{old}", new)
        return getattr(owner, old)
    return getattr(owner, new, None)
