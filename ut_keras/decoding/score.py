"""Computes log probabilities of given targets, and the steps of each position."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from ut_keras.decoding import parallel_batch, xla_fallback, xla_score
from ut_keras.decoding.decoded_model import DecodedModel, ForwardOutput
from ut_keras.decoding.options import AUTO, Options
from ut_keras.layers.basic import id_checks
from ut_keras.ops import compiled, log_softmax, private_api


def score(
    model: DecodedModel,
    features: Mapping[str, Any],
    num_steps: int | None = None,
    exit_threshold: float | None = None,
    jit_compile: bool | str = AUTO,
) -> tf.Tensor:
    """Return the log probability of each target, see `Seq2Seq.score`.

    The model must support num_steps and exit_threshold.
    """
    features = _checked_features(model, features)
    if jit_compile is True and not tf.executing_eagerly():
        raise ValueError(
            "jit_compile must be 'auto' or False inside a tf.function, whose own jit_compile "
            "applies. Received: True."
        )
    is_empty = any(ids.shape.num_elements() == 0 for ids in features.values())
    if tf.executing_eagerly() and not is_empty and xla_score.is_used(model, jit_compile):
        found = _score_with_xla(model, features, num_steps, exit_threshold, jit_compile)
        if found is not None:
            return found
    run = _compiled(model, _log_probs, features, num_steps, exit_threshold)
    return tf.concat(parallel_batch.run(run, features), axis=0)


def _checked_features(model: DecodedModel, features: Any) -> dict[str, tf.Tensor]:
    """Check the features, and return those that the model reads as int32 tensors."""
    if "targets" not in features:
        raise ValueError(f"features must hold 'targets'. Received: {sorted(features)}.")
    features = {
        name: id_checks.as_ids(features[name], name) for name in model.specs if name in features
    }
    rows = features["targets"].shape[:1]
    for name, ids in features.items():
        if not rows.is_compatible_with(ids.shape[:1]):
            raise ValueError(
                f"{name} must have as many examples as targets, {rows}. Received: {ids.shape}."
            )
    return features


def _score_with_xla(model, features, num_steps, exit_threshold, jit_compile):
    """Return the log probabilities, or None if XLA cannot compute them.

    See `xla_fallback.call`.
    """

    def score_padded():
        padded = xla_score.pad(model, features)
        run = _compiled(model, _log_probs, padded, num_steps, exit_threshold, jit_compile=True)
        scores = run(padded)
        return tf.constant(scores[: len(features["targets"])].numpy())  # waits for the device

    shape = features["targets"].shape
    return xla_fallback.call(model, xla_score.WORK, jit_compile, shape, score_padded)


def steps(
    model: DecodedModel,
    source_features: Mapping[str, tf.Tensor],
    target_ids: tf.Tensor,
    options: Options,
) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """Return the number of steps that a pondering model took at each position.

    One forward pass over the complete output computes the steps. If the model can be cached, these
    are also the steps of the search: decoding with a cache gives the same result as a full forward
    pass. If `why_not_cached` gives a reason, the steps of the search may have been different.

    Args:
        model: a `DecodedModel`.
        source_features: {"inputs": int32 [B, S] or [B, sentences, words]}, or {"prompt": int32
            [B, P]} for a language model.
        target_ids: int32 [B, K, T].
        options: the `Options` of the search that generated `target_ids`.

    Returns:
        (source steps float32 [B, S], target steps float32 [B, K, T]), 0 at padding. The entry is
            None if the encoder or the decoder does not ponder.
    """
    (source,) = source_features.values()
    shape = tf.shape(target_ids)
    targets = tf.reshape(target_ids, [shape[0] * shape[1], shape[2]])
    sources = tf.repeat(source, shape[1], axis=0)
    if "prompt" in source_features:
        features = {"targets": tf.concat([sources, targets], axis=1)}
    else:
        features = {"inputs": sources, "targets": targets}
    run = _compiled(model, _ponder_times, features, **options.depth)
    source_steps, target_steps = run(features)
    if source_steps is not None:
        real = source != 0 if source.shape.rank == 2 else tf.reduce_any(source != 0, axis=2)
        source_steps = tf.where(real, source_steps[:: shape[1]], 0.0)
    if target_steps is not None:
        target_steps = tf.reshape(target_steps[:, tf.shape(target_steps)[1] - shape[2] :], shape)
        target_steps = tf.where(target_ids != 0, target_steps, 0.0)
    return source_steps, target_steps


def _log_probs(
    model: DecodedModel, output: ForwardOutput, features: Mapping[str, tf.Tensor]
) -> tf.Tensor:
    logits, targets = model.match_lengths(output.logits, features["targets"])
    log_probs = log_softmax.of_ids(logits, targets)
    return tf.reduce_sum(tf.where(targets != 0, log_probs, 0.0), axis=1)


def _ponder_times(
    model: DecodedModel, output: ForwardOutput, features: Mapping[str, tf.Tensor]
) -> tuple[tf.Tensor | None, ...]:
    del model
    ponder_times = []
    for name, stack in (("inputs", output.encoder), ("targets", output.decoder)):
        times = None if stack is None else stack.ponder_times
        if times is not None and times.shape.rank == 1:  # one value per example
            times = tf.repeat(times[:, tf.newaxis], tf.shape(features[name])[1], axis=1)
        ponder_times.append(times)
    return tuple(ponder_times)


def _compiled(
    model: DecodedModel,
    function: Callable[[DecodedModel, ForwardOutput, Any], Any],
    features: Mapping[str, tf.Tensor],
    num_steps: int | None,
    exit_threshold: float | None,
    jit_compile: bool = False,
) -> Callable[..., Any]:
    """Compile a function of the model's output and features.

    With `jit_compile`, XLA compiles it for the shapes of these features. Otherwise the function
    takes all batch sizes and lengths.
    """
    kept = model.compiled_functions.of_decoding()
    # The embedding requires the number of words in a sentence, which is fixed.
    shapes = {
        name: (None, None, *ids.shape[2:])[: ids.shape.rank] for name, ids in features.items()
    }
    if jit_compile:
        shapes = {name: tuple(ids.shape) for name, ids in features.items()}
    key = (function, jit_compile, num_steps, exit_threshold, *shapes.items())

    def run(features):
        output = model.forward(
            features, training=False, num_steps=num_steps, exit_threshold=exit_threshold
        )
        return function(model, output, features)

    if private_api.is_compiled_by_xla():  # a trace without XLA has operations that XLA rejects
        return run
    if key not in kept:
        signature = {name: tf.TensorSpec(shape, tf.int32) for name, shape in shapes.items()}
        kept[key] = compiled.function(run, [signature], jit_compile=jit_compile)
    return kept[key]
