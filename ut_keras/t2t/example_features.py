"""The dict that ut_keras passes to `preprocess_example` of a package.

example["context"]      example.read == {"context"}
"""

from collections.abc import Iterator, Mapping
from typing import Any


class Example(dict[str, Any]):
    """An example that records in `read` which of its features were accessed."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        super().__init__(features)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    # Because of this method `dict(example)` and `{**example}` call __getitem__ for each feature.
    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        self.read.add(name)
        return super().pop(name, *default)

    def items(self) -> Any:
        return {**self}.items()

    def values(self) -> Any:
        return {**self}.values()

    def copy(self) -> dict[str, Any]:
        return {**self}
