"""Constraints on the output of a search.

Each constraint is a function (log probabilities float32 [B, K, V], `Query`, option). It returns log
probabilities of the same shape, with -inf for tokens that are not allowed. The function `combined`
returns one function for all constraints of a search.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import tensorflow as tf

from ut_keras.decoding.beam_search import EOS, Query
from ut_keras.decoding.options import Options
from ut_keras.ops import private_api

_FORBIDDEN = -float("inf")


def combined(
    trace_options: Options, values: Mapping[str, Any]
) -> Callable[[tf.Tensor, Query], tf.Tensor] | None:
    """Return one function that applies all constraints, or None if there are none.

    A forced prefix overrides the other constraints.

    Args:
        trace_options: `Options` of `generate.options_of_trace`. They select the constraints.
        values: dict from the name of an option to its value, a tensor.
    """
    active = []
    if trace_options.eos_penalty:
        active.append(partial(eos_penalty, penalty=values["eos_penalty"]))
    if trace_options.min_length:
        active.append(partial(min_length, length=values["min_length"]))
    if trace_options.no_repeat_ngram_size:
        active.append(partial(no_repeated_ngrams, n=trace_options.no_repeat_ngram_size))
    if not active and not trace_options.forced_prefix:
        return None

    def constrain(log_probs, query):
        free = log_probs
        for constraint in active:
            free = constraint(free, query)
        if trace_options.forced_prefix:
            return forced_prefix(log_probs, query, values["forced_prefix"], free)
        return free

    return constrain


def min_length(log_probs: tf.Tensor, query: Query, length: Any) -> tf.Tensor:
    """Forbid EOS until the output has `length` tokens."""
    is_eos = tf.range(tf.shape(log_probs)[-1]) == EOS
    return tf.where(is_eos & (query.position < length), _FORBIDDEN, log_probs)


def eos_penalty(log_probs: tf.Tensor, query: Query, penalty: Any) -> tf.Tensor:
    """Subtract `penalty` from the log probability of EOS."""
    is_eos = tf.range(tf.shape(log_probs)[-1]) == EOS
    return log_probs - tf.where(is_eos, penalty, 0.0)


def forced_prefix(
    log_probs: tf.Tensor, query: Query, prefix: tf.Tensor, free: tf.Tensor
) -> tf.Tensor:
    """Force the output to begin with a prefix.

    Args:
        log_probs: float32 [B, K, V] before any constraint. Forced tokens keep these values.
        query: `Query`.
        prefix: int32 [B, P]. At a position with 0, no token is forced.
        free: float32 [B, K, V], log probabilities after all other constraints. The function returns
            these values for examples without a forced token at the current position.
    """
    length = tf.shape(prefix)[1]
    inside = query.position < length
    forced = prefix[:, tf.minimum(query.position, length - 1)]  # [B]
    is_forced = (inside & (forced != 0))[:, tf.newaxis, tf.newaxis]
    is_forced_token = tf.range(tf.shape(log_probs)[-1]) == forced[:, tf.newaxis, tf.newaxis]
    return tf.where(is_forced, tf.where(is_forced_token, log_probs, _FORBIDDEN), free)


def no_repeated_ngrams(log_probs: tf.Tensor, query: Query, n: int) -> tf.Tensor:
    """Forbid tokens that would repeat an n-gram of the output."""
    # If the last n - 1 tokens occur earlier, the token that followed them there is forbidden.
    length = tf.shape(query.ids)[2]
    recent = tf.maximum(query.position - (n - 1), 0)
    # Bool [B, K, L]: positions at which the last n - 1 tokens occur.
    repeats = tf.ones_like(query.ids, tf.bool)
    for offset in range(n - 1):
        shifted = tf.roll(query.ids, -offset, axis=2)
        repeats &= shifted == query.ids[:, :, tf.minimum(recent + offset, length - 1), tf.newaxis]
    starts = tf.range(length)
    repeats &= starts + n <= query.position  # only n-grams whose n tokens are all generated
    followers = tf.roll(query.ids, -(n - 1), axis=2)
    if private_api.is_compiled_by_xla():  # XLA does not know the number of repeats
        index = tf.stack([*_indices(query.ids), followers], axis=-1)  # [B, K, L, 3]
        return tf.tensor_scatter_nd_min(
            log_probs, index, tf.where(repeats, _FORBIDDEN, float("inf"))
        )
    followers = tf.cast(tf.boolean_mask(followers, repeats), tf.int64)
    banned = tf.concat([tf.where(repeats)[:, :2], followers[:, tf.newaxis]], axis=1)
    values = tf.fill([tf.shape(banned)[0]], _FORBIDDEN)
    return tf.tensor_scatter_nd_update(log_probs, banned, values)


def _indices(ids):
    """Return each token's example index and beam index, both int32 [B, K, L]."""
    shape = tf.shape(ids)
    examples = tf.range(shape[0])[:, tf.newaxis, tf.newaxis]
    beams = tf.range(shape[1])[:, tf.newaxis]
    return tf.broadcast_to(examples, shape), tf.broadcast_to(beams, shape)
