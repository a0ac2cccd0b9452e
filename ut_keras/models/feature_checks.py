"""Check the features that a caller passes to a model."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ut_keras.data.features import FeatureSpec
from ut_keras.layers.basic import id_checks
from ut_keras.ops import plain_array


def check(features: Any, specs: Mapping[str, FeatureSpec], names: Sequence[str]) -> None:
    """Check the names and the batch sizes of features.

    Args:
        features: the value that the caller passes as features.
        specs: dict from feature name to `FeatureSpec`.
        names: the names of the features that the model requires.

    Raises:
        ValueError: if `features` is not a dict, if a feature is missing, or if the batch sizes of
            the features in `specs` differ.
    """
    id_checks.check_features(features, names)
    # The first axis of a sequence without a batch axis is the length, so it is not compared.
    # `to_ids` rejects such a sequence.
    batched = [
        name
        for name, spec in specs.items()
        if spec.modality == "class_label" or id_checks.known_rank(features.get(name)) != 1
    ]
    id_checks.check_batch_sizes(features, batched)


def with_tensors(
    features: Any, specs: Mapping[str, FeatureSpec], names: Container[str], are_ids: bool = True
) -> Any:
    """Convert the arrays, lists and objects of pandas in features to tensors.

    Args:
        features: the value that the caller passes as features. If it is not a dict, the function
            returns it unchanged.
        specs: dict from feature name to `FeatureSpec`.
        names: the names of the features that the model reads. Other features remain unchanged.
        are_ids: bool. Whether the features must be ids. A user's `call` may read others, such as
            floats or texts.

    Raises:
        ValueError: if `are_ids` is True, and an array or a list does not contain ids, or an id is
            out of range.
    """
    if not isinstance(features, Mapping):
        return features
    is_given = {
        name: name in specs and name in names and not plain_array.is_tensor(value)
        for name, value in features.items()
    }

    def converted(name, value):
        if are_ids:
            return id_checks.as_ids(value, name, specs[name].vocab_size)
        return tf.convert_to_tensor(plain_array.convert(value))

    return {
        name: converted(name, value) if is_given[name] else value
        for name, value in features.items()
    }


def check_ids(
    features: Any, specs: Mapping[str, FeatureSpec], names: Sequence[str] | None = None
) -> None:
    """Check that the ids of features are in range.

    Call this function outside of compiled functions. In a compiled function, it cannot check the
    range.

    Args:
        features: dict of features.
        specs: dict from feature name to `FeatureSpec`.
        names: the names of the features to check. Default: the names in `specs`. A feature without
            a spec must have the ids of the targets.

    Raises:
        ValueError: if `features` is not a dict, or if an id is out of range.
    """
    id_checks.check_features(features)
    for name in specs if names is None else names:
        if name in features:
            spec = specs.get(name, specs["targets"])
            id_checks.as_ids(features[name], name, spec.vocab_size)


def check_one_example_per_row(features: Mapping[str, Any], model: str) -> None:
    """Check that the rows of features do not contain several packed examples.

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

    The tensor has the shape [B, length]. Class labels may also have the shape [B], and become
    [B, 1]. This function does not check the shape of stories (the modality "sentences"), because
    their embedding layer checks it.

    Raises:
        ValueError: if the feature does not contain ids, or has another shape.
    """
    ids = id_checks.as_ids(features[name], name, spec.vocab_size)
    if spec.modality == "class_label" and ids.shape.rank in (None, 1):
        ids = tf.reshape(ids, [-1, 1])
    if ids.shape.rank != 2 and spec.modality != "sentences":
        hints = {
            1: " If a tf.data.Dataset yields single examples, call dataset.batch(…).",
            None: " The tf.data.Dataset must declare the rank, for example with "
            "tf.TensorSpec([None, None], tf.int32).",
        }
        hint = hints.get(ids.shape.rank, "")
        raise ValueError(f"{name} must be [batch, length]. Received: {ids.shape}.{hint}")
    return ids
