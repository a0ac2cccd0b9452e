"""Whether a layer contains layers of a user."""

from typing import Any

from ut_keras.ops import private_api


def are_all(layer: Any) -> bool:
    """Return whether a layer and all layers inside it are classes of ut_keras.

    A layer of a user may do what the layers of ut_keras never do. For example, it may create
    weights in its first call, or read its weights in a `tf.function` of its own.
    """
    layers = private_api.flatten_layers(layer)
    return all(type(part).__module__.startswith("ut_keras.") for part in layers)
