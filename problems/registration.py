"""The registry of all problems, and the functions that add classes to it."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ut_keras import registry
from ut_keras.errors import DataError

P = TypeVar("P")
REGISTRY = registry.Registry("problem", flag="problem", function="problems.get")

# Attributes with which T2T's problems describe their splits. ut_keras does not read these
# attributes.
_T2T_SPLIT_ATTRIBUTES = ("dataset_splits", "is_generate_per_split")
# Other methods and properties of T2T's problems that ut_keras does not call -> what to define
# instead.
_T2T_METHODS = {
    "generate_text_for_vocab": "texts_for_vocab",
    "additional_reserved_tokens": "build_vocab",
    "use_vocab_from_other_problem": "vocab_name",
    "preprocess_example": "preprocess",
    "example_reading_spec": "record_specs",
    "get_or_create_vocab": "feature_encoders",
}


@overload
def register(name: str | None = None) -> Callable[[type[P]], type[P]]: ...


@overload
def register(name: type[P]) -> type[P]: ...


def register(name: Any = None) -> Any:
    """Return a decorator that registers a `Problem` subclass as `name`.

    If no name is given, the decorator derives it from the name of the class, as in T2T. See
    `registry.default_name`.

    Raises:
        ValueError: if the name is already registered.
        DataError: if the class describes its splits with T2T's attributes. With ut_keras, such a
            class may yield the same samples for every split. The error also occurs if the
            class defines other methods of T2T that change the data.
    """

    def add(name, problem_class):
        for attribute in _T2T_SPLIT_ATTRIBUTES:
            if hasattr(problem_class, attribute):
                raise DataError(
                    f"{problem_class.__name__} must describe its splits with splits and "
                    "num_train_shards and yield each split in a separate call; or it must derive "
                    "from tensor2tensor.data_generators.text_problems, see docs/t2t_package.md. "
                    f"Received: {attribute}, an attribute of T2T that has no effect here."
                )
        for attribute, instead in _T2T_METHODS.items():
            if hasattr(problem_class, attribute) and not _is_overridden(problem_class, instead):
                raise DataError(
                    f"{problem_class.__name__} must define {instead} instead of {attribute}; or it "
                    "must derive from tensor2tensor.data_generators.text_problems, see "
                    f"docs/t2t_package.md. Received: {attribute}, which is not called here."
                )
        REGISTRY.add(name, problem_class)

    return registry.decorator(name, add)


def _is_overridden(problem_class, name):
    """Return whether a class of the user, outside of this package, defines `name`."""
    package = __name__.rpartition(".")[0]
    defining = next((cls for cls in problem_class.__mro__ if name in vars(cls)), None)
    return defining is not None and not defining.__module__.startswith(package)


def declare(name: str, *bases: type, **attributes: Any) -> Any:
    """Create and register a class, and return the class.

    The class becomes an attribute of the module of the last base, so that other processes can
    import the class. The name of the class is `name` in CamelCase: `rte_characters` becomes
    `RteCharacters`.

    Args:
        name: str. The name to register.
        *bases: the base classes.
        **attributes: the attributes of the class.
    """
    module = bases[-1].__module__
    class_name = "".join(word.capitalize() for word in name.split("_"))
    made = type(class_name, bases, {**attributes, "__module__": module})
    setattr(sys.modules[module], class_name, made)
    return register(name)(made)
