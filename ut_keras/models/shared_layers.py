"""Share a model's layers with a new model of its class, for `Seq2Seq.with_steps`."""

from collections.abc import Iterator
from typing import Any

import keras

from ut_keras.ops import private_api


def share(model: keras.Model, like: keras.Model) -> None:
    """Use the layers of `like` instead of those that `_make_stacks` creates.

    The attributes of `like` that are a layer or None become attributes of `model`. Keras then
    tracks the layers in the same order as in `like`.

    Args:
        model: new model without layers.
        like: model of the same class.
    """
    named = vars(like).items()
    for layer in like.layers:  # in the order of their creation
        for name in [name for name, value in named if value is layer]:
            setattr(model, name, layer)
    for name in [name for name, value in named if value is None and name not in vars(model)]:
        setattr(model, name, None)
    model.built = True
    if not like.trainable:
        model.trainable = False
    if like.compiled:
        # Keras removes the optimizer from these arguments when it writes an `.h5` file.
        model.compile(**{**private_api.compile_arguments(like), "optimizer": like.optimizer})


def check(model: keras.Model, like: keras.Model) -> None:
    """Check that the layers of a user's subclass belong to both models.

    A new layer without weights is allowed. Dropout, for example, has only a seed. A layer that is
    built at its first call would make new weights in each of the two models.

    Args:
        model: model that shares the layers of `like`.
        like: model of the same class.

    Raises:
        ValueError: if the class makes layers with weights that belong to only one of the models.
    """
    replaced = _replaced_parts(like)
    own_weights = [
        weight.path
        for weight in _in_one_model(model.weights, like.weights)
        if id(weight) not in replaced
    ]
    unbuilt = [
        layer.name
        for layer in _in_one_model(*map(private_api.flatten_layers, (model, like)))
        if id(layer) not in replaced
        and not layer.built
        and layer not in (model, like)
        # A layer without its own `build` makes no weights at its first call.
        and type(layer).build is not keras.layers.Layer.build
    ]
    if own_weights or unbuilt:
        what = own_weights[0] if own_weights else f"{unbuilt[0]}, which is not built yet"
        raise ValueError(
            "with_steps requires that a subclass makes its layers in `_make_stacks`, so that "
            f"the new model shares them. Received: {type(model).__name__}, which makes {what}."
        )


def _replaced_parts(like):
    """Return the ids of layers and weights that Keras tracks and `like` does not use.

    Keras also tracks a layer whose attribute has another value now.
    """
    held = {id(value) for value in _values(private_api.attributes(like))}
    return {
        id(part)
        for layer in like.layers
        if id(layer) not in held
        for part in (*private_api.flatten_layers(layer), *layer.weights)
    }


def _in_one_model(first_parts, second_parts):
    """Return the objects that belong to only one of two models."""
    first = {id(part): part for part in first_parts}
    second = {id(part): part for part in second_parts}
    return [part for key, part in {**first, **second}.items() if (key in first) != (key in second)]


def _values(container: Any) -> Iterator[Any]:
    """Iterate over the values in nested lists, sets and dicts."""
    if isinstance(container, dict):
        container = list(container.values())
    if not isinstance(container, list | tuple | set):
        yield container
        return
    for value in container:
        yield from _values(value)
