"""A layer or model beside another, with the same weights and something else that is different."""

from typing import Any, TypeVar

_Layer = TypeVar("_Layer")


def view(layer: _Layer, **changed: Any) -> _Layer:
    """What shares all that it holds with `layer`, but for some attributes.

    It is not tracked by Keras: whoever saves, saves the layer that it was made of. (A copy by
    `copy.copy` would have weights of its own: Keras' layers are pickled by their weights.)

    Args:
        layer: a built Keras layer or model.
        changed: attributes of the new one.
    """
    other = object.__new__(type(layer))
    vars(other).update({**vars(layer), **changed})
    return other
