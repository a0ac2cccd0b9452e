"""Base classes of layers, with automatic configs, and checks of arguments."""

import inspect
import warnings
from collections.abc import Collection, Iterable
from typing import Any, Self

import keras

from ut_keras.layers.basic import freezable
from ut_keras.layers.basic.signature import Config, Shape
from ut_keras.ops import private_api


class Layer(freezable.Freezable, private_api.BuildHook):
    """Base class of layers with automatic configs.

    A subclass stores each argument of `__init__` in an attribute of the same name. The config
    consists of these attributes, as for scikit-learn's estimators. A subclass overrides
    `get_config` only if it stores an argument under another name. If `__init__` has `**kwargs`, the
    config also contains the arguments of the parent class. `get_config` serializes initializers and
    layers among the arguments.

    Frozen layers and sublayers stay frozen. They are not trainable after `from_config` and `build`.
    """

    trainable: bool

    @property
    def dtype_policy(self) -> keras.DTypePolicy:
        """The dtype policy of the layer. It can be set only in a layer without sublayers."""
        return super().dtype_policy

    @dtype_policy.setter
    def dtype_policy(self, value: Any) -> None:
        """Raise ValueError if sublayers would keep their own policies."""
        policy = keras.dtype_policies.get(value)
        if policy != self.dtype_policy and private_api.sublayers(self):
            raise ValueError(
                "dtype_policy cannot be changed in a layer with sublayers, because the sublayers "
                f"would keep their own policies. Received: {value!r} for {self.name}. Make a new "
                "layer with the argument dtype."
            )
        keras.layers.Layer.dtype_policy.fset(self, policy)

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
        if not is_trainable:  # do not set True, because a trainable layer may have frozen sublayers
            layer.trainable = False
        return layer

    def after_build(self) -> None:
        if not self.trainable:  # Keras does not freeze sublayers that `build` created or assigned
            for layer in private_api.sublayers(self):
                layer.trainable = False


class PositionWise(Layer):
    """Base class of layers whose output has the shape and the mask of the input.

    The argument of `compute_output_shape` must have the name `input_shape`, as in `build`, because
    Keras passes the argument by name.
    """

    supports_masking = True  # Keras attaches the mask of the input to the output

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


def build_all(layers: Iterable[Any], shape: Any) -> None:
    """Build layers with an input shape, except layers that are None or already built.

    A layer may already be built because Keras has loaded it from a file. A user's layer may have no
    `build`. The model, or the first call, then builds the layers inside it.
    """
    for layer in layers:
        if layer is not None and not layer.built:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", r"`build\(\)` was called on layer")
                layer.build(shape)


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Check that an argument is one of the choices.

    Raises:
        ValueError: if `value` is not in `choices`.
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {tuple(choices)}. Received: {value!r}.")


def check_least(name: str, value: int, least: int) -> None:
    """Check that an argument is at least `least`.

    Raises:
        ValueError: if `value` is less than `least`.
    """
    if value < least:
        raise ValueError(f"{name} must be at least {least}. Received: {value}.")


def _init_arguments(cls: type) -> tuple[list[str], bool]:
    """Return the names of the arguments of `__init__`.

    Returns:
        (list of str, bool). The list has the names. The bool says whether `__init__` also accepts
        the arguments that all Keras layers have.
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
