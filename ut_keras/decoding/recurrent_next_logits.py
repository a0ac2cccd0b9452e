"""From an LSTM to the next-logits function that a search wants: its state is the cache."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf


def make(
    model: keras.Model,
    given: Mapping[str, tf.Tensor],
    beams: int,
    room: Any,
    use_cache: bool = True,
) -> tuple[Callable[..., Any], Any]:
    """Makes the function; arguments and results as of `next_logits.make`.

    Args:
        model: with `start`, `read`, `read_all` and `decode_states`, such as an `LSTMSeq2seq`.
    """
    del room  # a state is as large behind a long prefix as behind a short one
    memory = None
    if model.encoder is not None:
        memory = model.project_memory(model.encode(given), given)
        memory = _each(lambda part: tf.repeat(part, beams, axis=0), memory)
    prompt = given.get("prompt")
    if prompt is not None:
        prompt = tf.repeat(prompt, beams, axis=0)
    if not use_cache:
        return _whole_prefix(model, memory, prompt, beams), ()
    (source,) = given.values()
    return _step_by_step(model, memory, prompt, tf.shape(source)[0], beams)


def _step_by_step(model, memory, prompt, batch_size, beams):
    state = model.start(memory, batch_size * beams)
    first = tf.zeros([batch_size, beams], tf.int32)  # shown to the decoder before it writes
    if prompt is not None:
        shifted = tf.pad(prompt, [[0, 0], [1, 0]])  # [B · K, P + 1]
        state = model.read_all(shifted[:, :-1], state)
        first = tf.reshape(shifted[:, -1], [batch_size, beams])

    def next_logits(query, state):
        last = tf.maximum(query.position - 1, 0)
        symbols = tf.where(query.position > 0, query.ids[:, :, last], first)
        if beams > 1:  # at first all beams of an example are alike
            parents = tf.where(query.position > 0, query.ancestors[:, :, last], 0)
            rows = tf.reshape(tf.range(batch_size)[:, tf.newaxis] * beams + parents, [-1])
            state = _each(lambda part: tf.gather(part, rows), state)
        logits, state = model.read(tf.reshape(symbols, [-1]), state, memory)
        return tf.reshape(logits, [batch_size, beams, logits.shape[-1]]), state

    return next_logits, state


def _whole_prefix(model, memory, prompt, beams):
    def next_logits(query, cache):
        shape = tf.shape(query.ids)
        ids, position = tf.reshape(query.ids, [-1, shape[2]]), query.position
        if prompt is not None:
            ids = tf.concat([prompt, ids], axis=1)
            position += tf.shape(prompt)[1]
        output = model.decode_states(ids[:, : position + 1], memory)
        logits = model.logits(output[:, position : position + 1])
        return tf.reshape(logits, [shape[0], beams, logits.shape[-1]]), cache

    return next_logits


def _each(function, nest):
    """`function` of every tensor of a nest; None stays."""
    return tf.nest.map_structure(lambda part: None if part is None else function(part), nest)
