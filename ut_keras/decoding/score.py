"""How likely a model finds given targets."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras.decoding import side_by_side
from ut_keras.ops import log_softmax


def score(
    model: keras.Model, features: Mapping[str, Any], num_steps: int | None = None
) -> tf.Tensor:
    """See `Seq2Seq.score`."""
    if "targets" not in features:
        raise ValueError(f"features must hold 'targets'. Received: {sorted(features)}.")
    model.check_steps(num_steps)
    features = {name: tf.cast(features[name], tf.int32) for name in model.specs if name in features}
    scores = side_by_side.run(_compiled_score(model, features, num_steps), features)
    return tf.concat(scores, axis=0)


def _compiled_score(model, features, num_steps):
    """One trace for all batches and lengths."""
    scores = model.__dict__.setdefault("_scores", {})
    if num_steps not in scores:

        def run(features):
            logits = model.forward(features, training=False, num_steps=num_steps).logits
            targets = features["targets"]
            log_probs = log_softmax.of(logits, targets)
            return tf.reduce_sum(tf.where(targets != 0, log_probs, 0.0), axis=1)

        signature = {
            name: tf.TensorSpec([None] * ids.shape.rank, tf.int32) for name, ids in features.items()
        }
        scores[num_steps] = tf.function(run, input_signature=[signature], autograph=False)
    return scores[num_steps]
