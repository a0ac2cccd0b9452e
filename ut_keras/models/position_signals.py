"""How a model adds what says where a position is, with what both of its sides share."""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.position import ends_position


def with_places(
    features: Mapping[str, Any], layer: keras.layers.Layer | None, names: Iterable[str]
) -> Mapping[str, Any]:
    """Draws where training puts the positions, once for both sides.

    Args:
        features: dict, as in a model's call.
        layer: the position signal of one of the sides, or None.
        names: of the features that have positions; those that are classes [B] have none.
    Returns:
        The features with "places", int32 [longest]; as they are, where the layer draws by itself,
        or nothing.
    """
    if not isinstance(layer, ends_position.EndsPosition):
        return features
    ids = [tf.convert_to_tensor(features[name]) for name in names if name in features]
    longest = tf.reduce_max([tf.shape(of)[1] for of in ids if of.shape.rank > 1])
    return {**features, "places": layer.draw(longest)}


def add(
    layer: keras.layers.Layer | None,
    x: tf.Tensor,
    features: Mapping[str, Any],
    side: str,
    training: bool | None,
    padding_mask: tf.Tensor | None = None,
) -> tf.Tensor:
    """Adds the signal of a side, if it has one.

    Args:
        x: float tensor [B, S, D].
        features: dict, as from `with_places`; packed ones say the positions.
        side: "inputs" or "targets".
        padding_mask: bool [B, S]. None where the end is not known.
    Returns:
        Tensor like `x`.
    Raises:
        ValueError: for packed examples, where positions are counted from the end.
    """
    if layer is None:
        return x
    positions = features.get(f"{side}_position")
    if not isinstance(layer, ends_position.EndsPosition):
        return layer(x, positions, training=training)
    if f"{side}_segmentation" in features:
        raise ValueError(
            "pos='randomized_ends' counts from the end of a row, so it needs one example in each. "
            "Received: packed examples."
        )
    places = features.get("places")
    return layer(x, positions, training=training, places=places, padding_mask=padding_mask)
