"""Computes the outputs of a model that predicts all positions at once.

This needs no search. Given the source, the tokens at different positions are independent. So the
most likely output consists of the most likely token at each position, up to the first EOS.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from ut_keras.decoding import batch_plan, beam_search, parallel_batch
from ut_keras.decoding.beam_search import EOS, Decoded
from ut_keras.decoding.decoded_model import DecodedModel
from ut_keras.decoding.options import Options
from ut_keras.layers.basic import id_checks
from ut_keras.ops import compiled, maximum

# Options that only a search can use.
_SEARCH_OPTIONS = (
    "beam_size",
    "min_length",
    "eos_penalty",
    "no_repeat_ngram_size",
    "temperature",
    "forced_prefix",
    "return_steps",
)


def generate(model: DecodedModel, features: Mapping[str, Any], options: Options) -> Decoded:
    """Return the outputs of a model, see `NeuralGPU.search`.

    Raises:
        ValueError: if an option requires a search.
    """
    if options.jit_compile is True:
        raise ValueError(
            "jit_compile must be False or 'auto' for a model that predicts all tokens at once. "
            "Received: jit_compile=True."
        )
    for name in _SEARCH_OPTIONS:
        value = getattr(options, name)
        if value is not getattr(Options, name) and value != getattr(Options, name):
            raise ValueError(
                f"{name} must be {getattr(Options, name)} for a model that predicts all tokens at "
                f"once, without a search. Received: {name}={value}."
            )
    id_checks.check_features(features, ["inputs"])
    ids = id_checks.as_ids(features["inputs"], "inputs")
    if ids.shape.rank != 2:
        raise ValueError(f"inputs must be [batch, length]. Received: {ids.shape}.")
    if not tf.executing_eagerly():
        return _decode(
            model, batch_plan.require_equal_lengths(model, ids, options.per_example_length)
        )
    groups = batch_plan.split(model, ids, options.per_example_length)
    parts = [part for group in groups for part in parallel_batch.run(_compiled(model), group.ids)]
    decoded = beam_search.concat(parts, ids.shape[1])
    return batch_plan.restore_order(decoded, groups)


def _compiled(model: DecodedModel) -> Callable[..., Any]:
    """Return `_decode` as a `tf.function` for all batch sizes and lengths."""
    kept = model.compiled_functions.of_decoding()
    if _decode not in kept:
        ids = tf.TensorSpec([None, None], tf.int32)
        kept[_decode] = compiled.function(lambda ids: _decode(model, ids), [ids])
    return kept[_decode]


def _decode(model: DecodedModel, ids: tf.Tensor) -> Decoded:
    """Return the `Decoded` of sources int32 [B, S], with S positions per output."""
    output = model.forward({"inputs": ids}, training=False)
    log_probs = tf.nn.log_softmax(output.logits)
    best = maximum.argmax(log_probs)
    ended = tf.cumsum(tf.cast(best == EOS, tf.int32), axis=1, exclusive=True)
    written = ended == 0
    if not model.why_source_padding_matters:  # then the model predicts nothing at padding
        written &= output.encoder_mask
    scores = tf.where(written, tf.reduce_max(log_probs, axis=-1), 0.0)
    best = tf.where(written, best, 0)
    return Decoded(best[:, tf.newaxis], tf.reduce_sum(scores, axis=1, keepdims=True))
