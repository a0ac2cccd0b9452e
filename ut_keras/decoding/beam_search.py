"""Greedy search, sampling and beam search over any function that scores the next token.

None of them knows a model. `next_logits(query, cache)` gets a `Query` and whatever it keeps from
call to call, a nest of tensors, and returns scores float32 [B, K, V] of the token at
`query.position`, and what to keep. Nothing in the cache is ever reordered: when beams change places
it is `query.ancestors` that says where a beam comes from.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.ops import log_softmax

EOS = 1
INFINITY = 1e7  # T2T's: -INFINITY is the score of a beam that nothing fills; it has a JSON form


class Query(NamedTuple):
    """What is written so far. K is the number of beams, 1 in greedy search."""

    position: tf.Tensor  # int32 scalar: of the token to be scored
    ids: tf.Tensor  # int32 [B, K, L], 0 from `position` on
    ancestors: tf.Tensor  # int32 [B, K, L]: which beam read the token before each position


class Decoded(NamedTuple):
    """What a search found, best first.

    A beam that nothing fills has no ids and the score -10,000,000 (`-INFINITY`), as in T2T.
    """

    ids: tf.Tensor  # int32 [B, beams, L], 0 behind EOS
    scores: tf.Tensor  # float32 [B, beams]: log probability, in beam search by length penalty
    # With return_steps, if the model ponders: steps in depth, 0 at padding.
    source_steps: tf.Tensor | None = None  # float32 [B, S]
    target_steps: tf.Tensor | None = None  # float32 [B, beams, L], of the pass that wrote a token


class Task(NamedTuple):
    """What is searched."""

    next_logits: Callable  # see the module's docstring
    cache: tuple  # nest of tensors that it gets at first
    batch_size: tf.Tensor  # int32 scalar B
    max_length: tf.Tensor  # int32 scalar L
    max_output_length: tf.Tensor  # int32 [B]: how many tokens a row may write, at most L
    # (log probabilities [B, K, V], `Query`) -> the same where a token is allowed, -inf where not.
    # A beginning after which nothing is allowed ends: EOS is all that is left.
    constrain: Callable | None = None
    eos_bonus: Any = 0.0  # float scalar >= 0, how much `constrain` adds to EOS, at most
    eos_penalty: Any = 0.0  # float scalar, what EOS costs more where it is all that is left


def greedy_search(task: Task, choose: Callable[[Any, Any], Any] | None = None) -> Decoded:
    """Takes a token at every position, the best by default, until every row has EOS or is full.

    Args:
        choose: function (log probabilities [B, V], position) -> tokens int32 [B]. For sampling.
    Returns:
        `Decoded` with one beam; the score is the log probability up to and including EOS.
    References: T2T `transformer.fast_decode` with beam_size=1.
    """
    zeros = tf.zeros([task.batch_size, 1, task.max_length], tf.int32)

    def take_step(position, ids, scores, finished, cache):
        query = Query(position, ids, zeros)
        logits, cache = task.next_logits(query, cache)
        token, log_prob = _choose_tokens(logits[:, 0], query, task, choose)
        token = tf.where(finished, 0, token)
        ids = _write_column(ids, position, token[:, tf.newaxis])
        scores += tf.where(finished, 0.0, log_prob)
        finished |= (token == EOS) | (position + 1 >= task.max_output_length)
        return position + 1, ids, scores, finished, cache

    position, ids, scores, _, _ = tf.while_loop(
        lambda position, ids, scores, finished, cache: ~tf.reduce_all(finished),
        take_step,
        (
            tf.constant(0),
            zeros,
            tf.zeros([task.batch_size]),
            task.max_output_length <= 0,  # finished: EOS or the length limit is reached
            task.cache,
        ),
        maximum_iterations=task.max_length,
    )
    return Decoded(ids[:, :, :position], scores[:, tf.newaxis])


def _choose_tokens(logits, query, task, choose):
    """Of scores [B, V] the token that is taken, and its log probability; both [B]."""
    if task.constrain is None and choose is None:
        token = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return token, tf.math.log(tf.gather(tf.nn.softmax(logits), token, batch_dims=1))
    log_probs = allowed = tf.nn.log_softmax(logits)
    if task.constrain is not None:
        allowed = _constrained(log_probs[:, tf.newaxis], query, task)[:, 0]
    if choose is None:
        token = tf.argmax(allowed, axis=-1, output_type=tf.int32)
    else:
        token = choose(allowed, query.position)
    return token, tf.gather(log_probs, token, batch_dims=1)


class BeamState(NamedTuple):
    """What the beam loop carries. K is the number of beams."""

    position: tf.Tensor  # int32 scalar
    alive_ids: tf.Tensor  # int32 [B, K, L], without EOS
    alive_log_probs: tf.Tensor  # float32 [B, K]
    ancestors: tf.Tensor  # int32 [B, K, L], see `Query`
    finished_ids: tf.Tensor  # int32 [B, K, L], with EOS
    finished_scores: tf.Tensor  # float32 [B, K], log probability by length penalty
    finished: tf.Tensor  # bool [B, K], whether the slot is filled
    done: tf.Tensor  # bool [B], whether nothing changes in the row any more
    cache: tuple


def beam_search(task: Task, beam_size: int, alpha: Any) -> Decoded:
    """Keeps the `beam_size` best beginnings and the `beam_size` best whole results.

    A result's score is its log probability divided by ((5 + length) / 6)^alpha, EOS counted. The
    search of a row ends when no beginning can beat the worst result that is kept, or its room is
    full. A row in which nothing ended gives its beginnings, with their plain log probabilities.
    Where there are less than K results or beginnings, the rest is empty, at -10,000,000.

    Args:
        beam_size: int K.
        alpha: float. Of the length penalty.
    Returns:
        `Decoded` with K beams.
    References: Wu et al. 2016, eq. 14; T2T `beam_search.beam_search`, whose numbers these are.
    """

    def length_penalty(length):
        return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)

    penalty_when_full = length_penalty(task.max_output_length)  # [B]

    def is_done(position, alive_log_probs, finished_scores):
        # The next result, or one as long as may be, is the best to come: by its sign and alpha's.
        best = alive_log_probs[:, 0] + task.eos_bonus
        best_alive = tf.maximum(best / length_penalty(position + 1), best / penalty_when_full)
        # T2T lets all rows go on until all are settled, which gives the same results.
        settled = tf.reduce_min(finished_scores, axis=1) > best_alive
        nothing_left = alive_log_probs[:, 0] == -float("inf")
        return settled | nothing_left | (position >= task.max_output_length)

    def take_step(state):
        query = Query(state.position, state.alive_ids, state.ancestors)
        logits, cache = task.next_logits(query, state.cache)
        vocab_size = tf.shape(logits)[-1]
        # Twice as many as beams: even if half of them end, enough beginnings are left.
        log_probs, beam_and_token = _best_continuations(
            logits, query, task, state.alive_log_probs, 2 * beam_size
        )
        scores = log_probs / length_penalty(state.position + 1)
        parents, tokens = beam_and_token // vocab_size, beam_and_token % vocab_size
        candidates = tf.gather(state.alive_ids, parents, batch_dims=1)
        candidates = _write_column(candidates, state.position, tokens)
        done = state.done[:, tf.newaxis]
        ended = (tokens == EOS) & ~done & (scores > -float("inf"))

        # T2T lets what has ended go on as a beginning where less than K others are left, as happens
        # at the first tokens of a vocabulary smaller than 2 K.
        alive_scores, kept = tf.math.top_k(tf.where(ended, -float("inf"), scores), k=beam_size)
        parents = tf.gather(parents, kept, batch_dims=1)
        alive_log_probs = alive_scores * length_penalty(state.position + 1)
        alive_log_probs = tf.where(done, state.alive_log_probs, alive_log_probs)
        alive_ids = tf.gather(candidates, kept, batch_dims=1)
        alive_ids = tf.where(done[:, :, tf.newaxis], state.alive_ids, alive_ids)

        all_ids = tf.concat([state.finished_ids, candidates], axis=1)
        ended_scores = tf.where(ended, scores, -float("inf"))
        all_scores = tf.concat([state.finished_scores, ended_scores], axis=1)
        finished_scores, best = tf.math.top_k(all_scores, k=beam_size)
        all_ended = tf.concat([state.finished, ended], axis=1)
        ancestors = tf.gather(state.ancestors, parents, batch_dims=1)
        return (
            BeamState(
                state.position + 1,
                alive_ids,
                alive_log_probs,
                _write_column(ancestors, state.position, parents),
                tf.gather(all_ids, best, batch_dims=1),
                finished_scores,
                tf.gather(all_ended, best, batch_dims=1),
                is_done(state.position + 1, alive_log_probs, finished_scores),
                cache,
            ),
        )

    ids = tf.zeros([task.batch_size, beam_size, task.max_length], tf.int32)
    # One empty beginning; the other beams are impossible, or all would be alike.
    log_probs = tf.constant([[0.0] + [-float("inf")] * (beam_size - 1)])
    start = BeamState(
        position=tf.constant(0),
        alive_ids=ids,
        alive_log_probs=tf.tile(log_probs, [task.batch_size, 1]),
        ancestors=ids,
        finished_ids=ids,
        finished_scores=tf.fill([task.batch_size, beam_size], -float("inf")),
        finished=tf.zeros([task.batch_size, beam_size], tf.bool),
        done=task.max_output_length <= 0,
        cache=task.cache,
    )
    (last,) = tf.while_loop(
        lambda state: ~tf.reduce_all(state.done),
        take_step,
        (start,),
        maximum_iterations=task.max_length,
    )
    any_ended = tf.reduce_any(last.finished, axis=1, keepdims=True)
    possible = last.alive_log_probs > -float("inf")
    alive_ids = tf.where(possible[:, :, tf.newaxis], last.alive_ids, 0)
    ids = tf.where(any_ended[:, :, tf.newaxis], last.finished_ids, alive_ids)
    scores = tf.where(any_ended, last.finished_scores, last.alive_log_probs)
    scores = tf.where(scores > -float("inf"), scores, -INFINITY)
    return Decoded(ids[:, :, : last.position], scores)


def _best_continuations(logits, query, task, alive_log_probs, count):
    """The best ways to go on: log probabilities [B, count], and beam · V + token."""
    if task.constrain is not None:
        logits = _constrained(tf.nn.log_softmax(logits), query, task)
    # The best of each beam, then of those.
    batch_size, beams, vocab_size = tf.unstack(tf.shape(logits))
    count_of_beam = tf.minimum(count, vocab_size)
    best, tokens = top_k(logits, count_of_beam)  # [B, K, count]
    log_probs = best + alive_log_probs[:, :, tf.newaxis]
    if task.constrain is None:
        best_prob = tf.gather(tf.nn.softmax(logits), tokens[..., :1], batch_dims=2)
        log_probs -= log_softmax.normalizer(best[..., :1], best_prob)
    beam_and_token = tokens + (tf.range(beams) * vocab_size)[:, tf.newaxis]
    flat = [batch_size, beams * count_of_beam]
    log_probs, rank = tf.math.top_k(tf.reshape(log_probs, flat), k=count)
    return log_probs, tf.gather(tf.reshape(beam_and_token, flat), rank, batch_dims=1)


def _constrained(log_probs, query, task):
    """Log probabilities [B, K, V]: -inf where not allowed, but for an EOS that is all that is left.

    That is so for each beginning by itself: other beams do not decide whether it has ended.
    """
    allowed = task.constrain(log_probs, query)
    is_stuck = tf.reduce_max(allowed, axis=2, keepdims=True) == -float("inf")
    is_eos = tf.range(tf.shape(allowed)[2]) == EOS
    return tf.where(is_stuck & is_eos, log_probs - task.eos_penalty, allowed)


def _write_column(ids, position, tokens):
    """`ids` [..., L] with `tokens` [...] written at `position`."""
    is_position = tf.range(tf.shape(ids)[-1]) == position
    return tf.where(is_position, tokens[..., tf.newaxis], ids)


_BLOCK = 128


def top_k(x: tf.Tensor, k: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """As `tf.math.top_k` over the last axis.

    The k largest lie in the k blocks with the largest maximum: one pass for the maxima, and only
    those blocks are searched. Of equal values the first come first, as there.

    Args:
        x: float tensor [..., V].
        k: int32 scalar, at most V.
    Returns:
        (values, indices), [..., k].
    """
    size = tf.shape(x)[-1]
    is_small = size < 4 * k * _BLOCK
    return tf.cond(
        is_small, lambda: tuple(tf.math.top_k(x, k)), lambda: _top_k_by_blocks(x, k, size)
    )


def _top_k_by_blocks(x, k, size):
    known, rank = x.shape[-1], x.shape.rank - 1
    # A length that needs no padding, where the size is known and has one.
    lengths = range(_BLOCK, _BLOCK // 2, -1)
    length = next((length for length in lengths if known and known % length == 0), _BLOCK)
    if not known or known % length:
        padding = [[0, 0]] * rank + [[0, -size % length]]
        x = tf.pad(x, padding, constant_values=-float("inf"))
    blocks = tf.reshape(x, tf.concat([tf.shape(x)[:-1], [-1, length]], axis=0))
    maxima = tf.reduce_max(blocks, axis=-1)
    _, chosen = tf.math.top_k(maxima, k)
    chosen = tf.sort(chosen, axis=-1)  # so that the first of equal values stays the first
    candidates = tf.gather(blocks, chosen, batch_dims=rank)
    flat = tf.concat([tf.shape(x)[:-1], [k * length]], axis=0)
    values, index = tf.math.top_k(tf.reshape(candidates, flat), k)
    block = tf.gather(chosen, index // length, batch_dims=rank)
    return values, block * length + index % length
