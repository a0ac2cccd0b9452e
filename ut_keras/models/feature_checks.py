"""Check the features that a caller passes to a model."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ut_keras.data.features import FeatureSpec
from ut_keras.layers.basic import id_checks


def check(features: Any, specs: Mapping[str, FeatureSpec], names: Sequence[str]) -> None:
    """Check the names and the batch sizes of features.

    Args:
        features: the features that the caller passes. They should be a dict.
        specs: dict from feature name to `FeatureSpec`.
        names: the names of the features that the model requires.

    Raises:
        ValueError: if `features` is not a dict, if a feature is missing, or if the batch sizes of
            the features in `specs` differ.
    """
    id_checks.check_features(features, names)
    # Sequences without a batch axis are not compared, because their first axis is the length.
    # `to_ids` rejects such sequences.
    batched = [
        name
        for name, spec in specs.items()
        if spec.modality == "class_label" or id_checks.known_rank(features.get(name)) != 1
    ]
    id_checks.check_batch_sizes(features, batched)


def check_ids(
    features: Any, specs: Mapping[str, FeatureSpec], names: Sequence[str] | None = None
) -> None:
    """Check ids outside of compiled functions, so that errors can name the feature.

    Args:
        features: dict of features.
        specs: dict from feature name to `FeatureSpec`.
        names: the names of the features to check. A feature without a spec has the ids of the
            targets. By default, the function checks the features in `specs`.

    Raises:
        ValueError: if `features` is not a dict, or if an id is out of range.
    """
    id_checks.check_features(features)
    for name in specs if names is None else names:
        if name in features:
            spec = specs.get(name, specs["targets"])
            id_checks.as_ids(features[name], name, spec.vocab_size)


def check_one_example_per_row(features: Mapping[str, Any], model: str) -> None:
    """Check that rows do not contain several packed examples.

    Args:
        features: dict of features.
        model: the kind of the model, such as "An LSTM", for the error message.

    Raises:
        ValueError: if the examples are packed.
    """
    packed = sorted(name for name in features if name.endswith("_segmentation"))
    if packed:
        raise ValueError(f"{model} requires one example per row. Received: {', '.join(packed)}.")


def to_ids(features: Mapping[str, Any], name: str, spec: FeatureSpec) -> tf.Tensor:
    """Return a feature as an int32 tensor with a batch axis.

    The embedding layer of stories checks the shape of stories.

    Raises:
        ValueError: if the feature does not contain ids, or has no batch axis.
    """
    ids = id_checks.as_ids(features[name], name, spec.vocab_size)
    if spec.modality == "class_label" and ids.shape.rank in (None, 1):
        ids = tf.reshape(ids, [-1, 1])
    if ids.shape.rank != 2 and spec.modality != "sentences":
        # The rank is None if `fit` was traced for sequences of several lengths.
        one = ids.shape.rank in (None, 1)
        hint = " If a tf.data.Dataset yields single examples, call dataset.batch(…)." * one
        raise ValueError(f"{name} must be [batch, length]. Received: {ids.shape}.{hint}")
    return ids
