"""Greedy and beam search over any function that scores the next symbol.

Neither knows a model: `next_logits(ids, position)` gets what is written so far, int32 [N, L] with
zeros from `position` on, and returns scores [N, V] of the symbol at `position`. With beams, N is
batch times beams, the beams of an example side by side.
"""

from typing import NamedTuple

import tensorflow as tf

EOS = 1
INFINITY = 1e7  # T2T's; a score below every real one


class Decoded(NamedTuple):
    """What a search found, best first."""

    ids: tf.Tensor  # int32 [B, beams, L], 0 behind EOS
    scores: tf.Tensor  # float32 [B, beams]: log probability, in beam search by length penalty


class GreedyState(NamedTuple):
    """What the greedy loop carries."""

    position: tf.Tensor  # int32 scalar
    ids: tf.Tensor  # int32 [B, L]
    scores: tf.Tensor  # float32 [B]
    finished: tf.Tensor  # bool [B]


def greedy_search(next_logits, batch_size, max_length):
    """Takes the best symbol at every position until every row has written EOS.

    Args:
        next_logits: see the module's docstring.
        batch_size: int32 scalar B.
        max_length: int32 scalar L.
    Returns:
        `Decoded` with one beam; the score is the log probability up to and including EOS.
    References: T2T `transformer.fast_decode` with beam_size=1.
    """

    def take_step(state):
        log_probs = tf.nn.log_softmax(next_logits(state.ids, state.position))
        symbol = tf.argmax(log_probs, axis=-1, output_type=tf.int32)
        symbol = tf.where(state.finished, 0, symbol)
        gained = tf.where(state.finished, 0.0, tf.reduce_max(log_probs, axis=-1))
        return (
            GreedyState(
                state.position + 1,
                _write_column(state.ids, state.position, symbol),
                state.scores + gained,
                state.finished | (symbol == EOS),
            ),
        )

    start = GreedyState(
        position=tf.constant(0),
        ids=tf.zeros([batch_size, max_length], tf.int32),
        scores=tf.zeros([batch_size]),
        finished=tf.zeros([batch_size], tf.bool),
    )
    (last,) = tf.while_loop(
        lambda state: (state.position < max_length) & ~tf.reduce_all(state.finished),
        take_step,
        (start,),
        maximum_iterations=max_length,
    )
    return Decoded(last.ids[:, tf.newaxis, : last.position], last.scores[:, tf.newaxis])


class BeamState(NamedTuple):
    """What the beam loop carries. K is the number of beams."""

    position: tf.Tensor  # int32 scalar
    alive_ids: tf.Tensor  # int32 [B, K, L], without EOS
    alive_log_probs: tf.Tensor  # float32 [B, K]
    finished_ids: tf.Tensor  # int32 [B, K, L], with EOS
    finished_scores: tf.Tensor  # float32 [B, K], log probability by length penalty
    finished: tf.Tensor  # bool [B, K], whether the slot is filled


def beam_search(next_logits, batch_size, beam_size, max_length, vocab_size, alpha):
    """Keeps the `beam_size` best beginnings and the `beam_size` best whole results.

    A result's score is its log probability divided by ((5 + length) / 6)^alpha, EOS counted. The
    search ends when no beginning can beat the worst result that is kept. A row in which nothing
    ended gives its beginnings, with their plain log probabilities.

    Args:
        next_logits: see the module's docstring.
        batch_size: int32 scalar B.
        beam_size: int K.
        max_length: int32 scalar L.
        vocab_size: int V.
        alpha: float. Of the length penalty.
    Returns:
        `Decoded` with K beams.
    References: Wu et al. 2016, eq. 14; T2T `beam_search.beam_search`, whose numbers these are.
    """

    def penalty(length):
        return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)

    def can_improve(state):
        best_alive = state.alive_log_probs[:, 0] / penalty(max_length)
        # The minimum over the whole batch, as in T2T: no row stops before all may.
        settled = tf.reduce_all(tf.reduce_min(state.finished_scores) > best_alive)
        return (state.position < max_length) & ~settled

    def take_step(state):
        flat_ids = tf.reshape(state.alive_ids, [batch_size * beam_size, max_length])
        log_probs = tf.nn.log_softmax(next_logits(flat_ids, state.position))
        log_probs = tf.reshape(log_probs, [batch_size, beam_size, vocab_size])
        log_probs += state.alive_log_probs[:, :, tf.newaxis]
        scores = log_probs / penalty(state.position + 1)

        # Twice as many as beams: even if half of them end, enough beginnings are left.
        scores, picked = tf.math.top_k(
            tf.reshape(scores, [batch_size, beam_size * vocab_size]), k=2 * beam_size
        )
        candidates = tf.gather(state.alive_ids, picked // vocab_size, batch_dims=1)
        symbols = picked % vocab_size
        candidates = _write_column(candidates, state.position, symbols)
        ended = symbols == EOS

        _, kept = tf.math.top_k(scores + tf.cast(ended, tf.float32) * -INFINITY, k=beam_size)
        alive_ids = tf.gather(candidates, kept, batch_dims=1)
        # T2T lets what has ended go on as a beginning where less than K others are left, as happens
        # at the first symbols of a vocabulary smaller than 2 K.
        scores_of_alive = tf.where(ended, -float("inf"), scores)
        alive_scores = tf.gather(scores_of_alive, kept, batch_dims=1)

        all_ids = tf.concat([state.finished_ids, candidates], axis=1)
        all_scores = tf.concat(
            [state.finished_scores, scores + tf.cast(~ended, tf.float32) * -INFINITY], axis=1
        )
        finished_scores, kept = tf.math.top_k(all_scores, k=beam_size)
        all_ended = tf.concat([state.finished, ended], axis=1)
        return (
            BeamState(
                state.position + 1,
                alive_ids,
                alive_scores * penalty(state.position + 1),
                tf.gather(all_ids, kept, batch_dims=1),
                finished_scores,
                tf.gather(all_ended, kept, batch_dims=1),
            ),
        )

    (last,) = tf.while_loop(
        can_improve,
        take_step,
        (_initial_beams(batch_size, beam_size, max_length),),
        maximum_iterations=max_length,
    )
    any_ended = tf.reduce_any(last.finished, axis=1, keepdims=True)
    ids = tf.where(any_ended[:, :, tf.newaxis], last.finished_ids, last.alive_ids)
    scores = tf.where(any_ended, last.finished_scores, last.alive_log_probs)
    return Decoded(ids[:, :, : last.position], scores)


def _initial_beams(batch_size, beam_size, max_length):
    """One empty beginning; the other beams are impossible, or all would be alike."""
    log_probs = tf.constant([[0.0] + [-float("inf")] * (beam_size - 1)])
    ids = tf.zeros([batch_size, beam_size, max_length], tf.int32)
    return BeamState(
        position=tf.constant(0),
        alive_ids=ids,
        alive_log_probs=tf.tile(log_probs, [batch_size, 1]),
        finished_ids=ids,
        finished_scores=tf.fill([batch_size, beam_size], -INFINITY),
        finished=tf.zeros([batch_size, beam_size], tf.bool),
    )


def _write_column(ids, position, symbols):
    """`ids` [..., L] with `symbols` [...] written at `position`."""
    here = tf.range(tf.shape(ids)[-1]) == position
    return tf.where(here, symbols[..., tf.newaxis], ids)
