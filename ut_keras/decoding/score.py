"""How likely a model finds given targets."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras import log_softmax
from ut_keras.decoding import side_by_side


def score(model: keras.Model, features: Mapping[str, Any]) -> tf.Tensor:
    """See `Transformer.score`."""
    if "targets" not in features:
        raise ValueError(f"features must hold 'targets'. Received: {sorted(features)}.")
    features = {name: tf.cast(features[name], tf.int32) for name in model.specs if name in features}
    return tf.concat(side_by_side.run(_compiled_score(model, features), features), axis=0)


def _compiled_score(model, features):
    """One trace for all batches and lengths."""
    if "_score" not in model.__dict__:

        def run(features):
            logits = model.forward(features, training=False).logits
            targets = features["targets"]
            log_probs = log_softmax.of(logits, targets)
            return tf.reduce_sum(tf.where(targets != 0, log_probs, 0.0), axis=1)

        signature = {
            name: tf.TensorSpec([None] * ids.shape.rank, tf.int32) for name, ids in features.items()
        }
        model.__dict__["_score"] = tf.function(run, input_signature=[signature], autograph=False)
    return model.__dict__["_score"]
