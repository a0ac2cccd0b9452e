"""Creates a model's next-logits function for a search, with or without a cache."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

import tensorflow as tf

from ut_keras.decoding import prefix as prefix_lib
from ut_keras.decoding.decoded_model import CachedModel, DecodedModel, RecurrentModel
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.ops import private_api

_LOG = logging.getLogger("ut_keras")


def make(
    model: DecodedModel,
    source_features: Mapping[str, tf.Tensor],
    beams: int,
    max_length: Any,
    use_cache: bool = True,
    inputs: StepInputs = PLAIN,
) -> tuple[Callable[..., Any], Any]:
    """Return the next-logits function of a model, and the cache for its first call.

    Args:
        model: a `CachedModel`, such as a `Transformer`, or a `RecurrentModel`, such as an
            `LSTMSeq2seq`. For a recurrent model, the cache is the state of the decoder, whose size
            does not depend on the length of the prefix.
        source_features: {"inputs": int32 [B, S]}, or {"prompt": int32 [B, P]} for a language model.
        beams: int K.
        max_length: int32 scalar, the maximum number of generated tokens. If it is a Python int, the
            cache has its full size from the start. This requires a static batch size.
        use_cache: bool. Whether to cache the earlier positions if the results with a cache are
            exact. Without a cache, the complete prefix is recomputed for every token.
        inputs: `StepInputs`. Its num_steps and exit_threshold set the depth of a forward pass.

    Returns:
        (next_logits, cache), see `beam_search`.
    """
    reason = model.why_not_cached
    if use_cache and reason and not model.compiled_functions.is_slow_search_logged:
        _LOG.warning("Decoding recomputes the complete prefix for every token: %s.", reason)
        model.compiled_functions.is_slow_search_logged = True
    memory = None
    if model.encoder is not None:
        memory = model.project_memory(model.encode(source_features, inputs), source_features)
    prompt = model.prompt(source_features)
    if reason or not use_cache:
        return _uncached(model, memory, prompt, beams, inputs), ()
    source = next(iter(source_features.values()))
    if model.is_recurrent:
        recurrent = cast(RecurrentModel, model)
        return _recurrent(recurrent, memory, prompt, tf.shape(source)[0], beams)
    batch_size = source.shape[0] or tf.shape(source)[0]
    cached = cast(CachedModel, model)
    return _cached(cached, memory, prompt, batch_size, beams, max_length, inputs)


def _cached(
    model: CachedModel,
    memory: Any,
    prompt: tf.Tensor | None,
    batch_size: Any,
    beams: int,
    max_length: Any,
    inputs: StepInputs,
) -> tuple[Callable[..., Any], Any]:
    """Return a function that decodes one position with a cache, and the first cache."""
    prompt_length = 0 if prompt is None else tf.shape(prompt)[1]
    inputs = inputs._replace(num_steps=inputs.num_steps or model.num_steps)
    prefixes = prefix_lib.PrefixCache(
        model.decoder, batch_size, beams, prompt_length, max_length, inputs
    )
    prefix = prefixes.start()
    embedding_columns = model.softmax.columns()
    # The input of the decoder at the first position.
    first = tf.zeros([batch_size, beams], tf.int32)
    if prompt is not None:
        shifted = tf.pad(prompt, [[0, 0], [1, 0]])  # [B, P + 1]
        first = tf.tile(shifted[:, -1:], [1, beams])
        window, prefix = prefixes.prompt_window(prefix)
        _, cache = model.extend(shifted[:, :-1], prefix.cache, window, memory)
        prefix = prefix._replace(cache=cache)

    def next_logits(query, prefix):
        window, prefix = prefixes.next_window(prefix, query)
        last = tf.maximum(query.position - 1, 0)
        tokens = tf.where(query.position > 0, query.ids[:, :, last], first)
        state, cache = model.extend(tokens, prefix.cache, window, memory)
        return model.logits(state, embedding_columns), prefix._replace(cache=cache)

    return next_logits, prefix


def _uncached(
    model: DecodedModel, memory: Any, prompt: tf.Tensor | None, beams: int, inputs: StepInputs
) -> Callable[..., Any]:
    """Return a function without a cache.

    It reads the complete prefix for every token.
    """
    memory = _map_tensors(lambda part: tf.repeat(part, beams, axis=0), memory)
    if prompt is not None:
        prompt = tf.repeat(prompt, beams, axis=0)

    def next_logits(query, cache):
        shape = tf.shape(query.ids)
        ids, position = tf.reshape(query.ids, [-1, shape[2]]), query.position
        if prompt is not None:
            ids = tf.concat([prompt, ids], axis=1)
            position += tf.shape(prompt)[1]
        # A model that is not causal would also read the empty positions after the prefix.
        if not model.decoder_is_causal:
            ids = ids[:, : position + 1]
        decoded = model.decode({"targets": ids}, inputs._replace(memory=memory))
        if private_api.is_compiled_by_xla():  # XLA does not know the size of the slice
            last = tf.gather(decoded.output, [position], axis=1)
        else:
            last = decoded.output[:, position : position + 1]
        logits = model.logits(last)
        return tf.reshape(logits, [shape[0], beams, logits.shape[-1]]), cache

    return next_logits


def _recurrent(
    model: RecurrentModel, memory: Any, prompt: tf.Tensor | None, batch_size: Any, beams: int
) -> tuple[Callable[..., Any], Any]:
    """Return a function that decodes one position from a state, and the first state."""
    memory = _map_tensors(lambda part: tf.repeat(part, beams, axis=0), memory)
    state = model.start(memory, batch_size * beams)
    # The input of the decoder at the first position.
    first = tf.zeros([batch_size, beams], tf.int32)
    if prompt is not None:
        shifted = tf.pad(tf.repeat(prompt, beams, axis=0), [[0, 0], [1, 0]])  # [B · K, P + 1]
        state = model.read_all(shifted[:, :-1], state)
        first = tf.reshape(shifted[:, -1], [batch_size, beams])

    def next_logits(query, state):
        last = tf.maximum(query.position - 1, 0)
        tokens = tf.where(query.position > 0, query.ids[:, :, last], first)
        if beams > 1:  # at the first position all beams of an example are equal
            parents = tf.where(query.position > 0, query.ancestors[:, :, last], 0)
            rows = tf.reshape(tf.range(batch_size)[:, tf.newaxis] * beams + parents, [-1])
            state = _map_tensors(lambda part: tf.gather(part, rows), state)
        logits, state = model.read(tf.reshape(tokens, [-1]), state, memory)
        return tf.reshape(logits, [batch_size, beams, logits.shape[-1]]), state

    return next_logits, state


def _map_tensors(function, nest):
    """Apply a function to every tensor of a nest that may contain None."""
    return tf.nest.map_structure(lambda part: None if part is None else function(part), nest)
