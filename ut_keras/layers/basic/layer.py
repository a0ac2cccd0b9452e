"""What our layers share: a config that is read off the arguments, and how these are checked."""

import inspect
from collections.abc import Collection, Iterable
from typing import Any, Self

import keras

from ut_keras.layers.basic.signature import Config, Shape
from ut_keras.ops import private_api


class Layer(private_api.BuildHook):
    """A Keras layer that keeps each argument of `__init__` as an attribute of the same name.

    So its config need not be written out, as in scikit-learn's estimators; it is left to a class
    to add what it keeps under another name. Initializers and layers among the arguments are
    serialized, and made again from a config. An `__init__` with `**kwargs` hands these on: the
    arguments of the class above are in the config, too. What is frozen, parts as well, is frozen
    when it is made from a config and built.
    """

    trainable: bool

    def get_config(self) -> Config:
        names, takes_keras_arguments = _init_arguments(type(self))
        config = super().get_config() if takes_keras_arguments else {}
        if not self.trainable:
            config = {**config, "trainable": False}
        kept = {name: _serialized(getattr(self, name)) for name in names if hasattr(self, name)}
        return {**config, **kept}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        made = {name: _deserialized(value) for name, value in config.items()}
        is_trainable = made.pop("trainable", True)
        layer = super().from_config(made)
        if not is_trainable:  # of one that is, parts may be frozen
            layer.trainable = False
        return layer

    def after_build(self) -> None:
        if not self.trainable:  # Keras does not freeze layers that `build` made or was given
            for layer in self.direct_sublayers:
                layer.trainable = False


class PositionWise(Layer):
    """A layer that keeps positions apart: its output is like its input, and masked like it.

    Keras calls `compute_output_shape` by the name of what `build` takes: here `input_shape`, too.
    """

    supports_masking = True  # Keras hands the mask on

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


def build_all(layers: Iterable[Any], shape: Any) -> None:
    """Builds layers: none that is None, or built, as Keras builds what it loads."""
    for layer in layers:
        if layer is not None and not layer.built:
            layer.build(shape)


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raises ValueError: if the argument of that name is none of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {tuple(choices)}. Received: {value!r}.")


def check_least(name: str, value: int, least: int) -> None:
    """Raises ValueError: if the argument of that name is less."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}. Received: {value}.")


def _init_arguments(cls: type) -> tuple[list[str], bool]:
    """The names of what `__init__` takes, and whether it takes what every Keras layer does."""
    names: list[str] = []
    for above in cls.__mro__[: cls.__mro__.index(Layer)]:
        if "__init__" not in vars(above):
            continue
        signature = inspect.getfullargspec(vars(above)["__init__"])
        names += [*signature.args[1:], *signature.kwonlyargs]
        if signature.varkw is None:
            return names, False
    return names, True


def _serialized(value: Any) -> Any:
    if isinstance(value, keras.layers.Layer | keras.initializers.Initializer):
        return keras.saving.serialize_keras_object(value)
    return [_serialized(part) for part in value] if isinstance(value, tuple) else value


def _deserialized(value: Any) -> Any:
    if isinstance(value, dict) and "class_name" in value:
        return keras.saving.deserialize_keras_object(value)
    return [_deserialized(part) for part in value] if isinstance(value, list) else value
