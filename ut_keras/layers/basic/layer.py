"""Base classes of layers, with automatic configs, and checks of arguments."""

import inspect
from collections.abc import Collection, Iterable
from typing import Any, Self

import keras

from ut_keras.layers.basic.signature import Config, Shape
from ut_keras.ops import private_api


class Layer(private_api.BuildHook):
    """Base class of layers with automatic configs.

    A subclass stores each argument of `__init__` in an attribute of the same name. As for
    scikit-learn's estimators, its config consists of these attributes, without further code. A
    subclass adds to the config only what it stores under another name. If `__init__` has
    `**kwargs`, the config also contains the arguments of the parent class. Initializers and layers
    among the arguments are serialized.

    Frozen layers and sublayers stay frozen: they are not trainable after `from_config` and `build`.
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
        if not is_trainable:  # a trainable layer may contain frozen layers, so leave it unchanged
            layer.trainable = False
        return layer

    def after_build(self) -> None:
        if not self.trainable:  # Keras does not freeze the sublayers that `build` made or assigned
            for layer in self.direct_sublayers():
                layer.trainable = False


class PositionWise(Layer):
    """Base class of layers whose output has the shape and the mask of the input.

    The argument of `compute_output_shape` must have the name `input_shape`, as in `build`, because
    Keras passes it by name.
    """

    supports_masking = True  # Keras passes the mask of the input on to the output

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


def build_all(layers: Iterable[Any], shape: Any) -> None:
    """Build layers with an input shape, except those that are None or already built.

    Keras has already built the layers that it loaded from a file.
    """
    for layer in layers:
        if layer is not None and not layer.built:
            layer.build(shape)


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Check that an argument is one of the choices.

    Raises:
        ValueError: otherwise.
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {tuple(choices)}. Received: {value!r}.")


def check_least(name: str, value: int, least: int) -> None:
    """Check that an argument is at least `least`.

    Raises:
        ValueError: otherwise.
    """
    if value < least:
        raise ValueError(f"{name} must be at least {least}. Received: {value}.")


def _init_arguments(cls: type) -> tuple[list[str], bool]:
    """Return the arguments of `__init__` as names.

    Returns:
        (list of str, bool): the names; whether `__init__` also accepts the arguments that all
        Keras layers have.
    """
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
