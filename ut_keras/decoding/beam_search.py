"""Greedy search, sampling and beam search over a function of next-token logits.

The searches do not depend on a model. They call a function `next_logits(query, cache)`:

- `query` is a `Query`: the position of the next token and all earlier tokens.
- `cache` is a nest of tensors. In the first call, it is `Task.cache`. In every later call, it is
  the cache that the previous call returned.
- The function returns `(logits, cache)`. The logits, float32 [B, K, V], score each token as the
  next one, at `query.position`. They are log probabilities up to a constant per beam.

The search never reorders the cache. When the order of the beams changes, `query.ancestors` says
which beam each earlier position belonged to.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.ops import log_softmax, maximum, private_api

EOS = 1
# T2T's value. The score of an empty beam is -INFINITY, which is valid JSON, unlike -inf.
INFINITY = 1e7


class Query(NamedTuple):
    """The tokens generated so far. K is the number of beams; greedy search has K = 1."""

    position: tf.Tensor  # int32 scalar: the position of the next token
    ids: tf.Tensor  # int32 [B, K, L], 0 at `position` and at all later positions
    # int32 [B, K, L]: the cache entry for beam k at position p is stored under the beam
    # ancestors[b, k, p]. The value is defined only for p < `position`.
    ancestors: tf.Tensor


class Decoded(NamedTuple):
    """The result of a search: the outputs of each example, sorted from best to worst.

    As in T2T, an empty beam has only zeros as ids and the score -10,000,000 (`-INFINITY`).
    """

    ids: tf.Tensor  # int32 [B, beams, L], 0 after EOS
    # float32 [B, beams]: log probability. Beam search divides it by the length penalty if the
    # output ends with EOS (see `beam_search`).
    scores: tf.Tensor
    # The number of steps in depth at each position, 0 at padding. The value is None without
    # `return_steps` or if the model does not ponder. A token of the target has the number of steps
    # of the position that predicted this token.
    source_steps: tf.Tensor | None = None  # float32 [B, S]
    target_steps: tf.Tensor | None = None  # float32 [B, beams, L]


def concat(parts: Sequence[Decoded], source_length: int) -> Decoded:
    """Concatenate the results for the parts of a batch, padded to the longest part.

    Args:
        parts: sequence of `Decoded`.
        source_length: int. The length of `source_steps` in the result.
    """
    if len(parts) == 1:
        return parts[0]
    length = max(part.ids.shape[2] for part in parts)

    def join(tensors, width):
        """Pad the last axis of tensors to a width and concatenate them.

        If the tensors are None, return None.
        """
        if tensors[0] is None:
            return None
        return tf.concat(
            [
                tf.pad(x, [[0, 0]] * (len(x.shape) - 1) + [[0, width - x.shape[-1]]])
                for x in tensors
            ],
            axis=0,
        )

    return Decoded(
        ids=join([part.ids for part in parts], length),
        scores=tf.concat([part.scores for part in parts], axis=0),
        source_steps=join([part.source_steps for part in parts], source_length),
        target_steps=join([part.target_steps for part in parts], length),
    )


class Task(NamedTuple):
    """The function that scores tokens, and the limits of the search."""

    next_logits: Callable  # described at the beginning of this file
    cache: tuple  # nest of tensors, which the first call of `next_logits` gets
    batch_size: tf.Tensor  # int32 scalar B
    max_length: tf.Tensor  # int32 scalar L, the size of the id tensors
    max_output_length: tf.Tensor  # int32 [B]: maximum number of tokens of each example, at most L
    # Function (log probabilities [B, K, V], `Query`) -> tensor of the same shape, with -inf for
    # tokens that are not allowed. If the function allows no token, the search allows only EOS.
    constrain: Callable | None = None
    # float scalar >= 0: the maximum amount by which `constrain` increases the score of EOS
    eos_bonus: Any = 0.0
    # float scalar: the search subtracts this from the score of EOS if only EOS is allowed
    eos_penalty: Any = 0.0


def greedy_search(task: Task, choose: Callable[[Any, Any], Any] | None = None) -> Decoded:
    """Choose one token per position, by default the most likely one.

    The output of an example ends with EOS or at its maximum output length.

    Args:
        task: `Task`.
        choose: function (log probabilities [B, V], position) -> tokens int32 [B], such as a
            `sampler`. Default: argmax.

    Returns:
        `Decoded` with one beam. The score is the log probability of the complete output with EOS.

    References: T2T `transformer.fast_decode` with beam_size=1.
    """
    return _trimmed(*untrimmed_greedy_search(task, choose))


def untrimmed_greedy_search(
    task: Task, choose: Callable[[Any, Any], Any] | None = None
) -> tuple[Decoded, tf.Tensor]:
    """Return the result of `greedy_search` with ids of the maximum length, for XLA.

    Returns:
        (`Decoded` with ids [B, 1, L], the length of the ids that `greedy_search` returns: int32
        scalar).
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
            # Whether an example has ended: by EOS, or because it reached its maximum output length.
            task.max_output_length <= 0,
            task.cache,
        ),
        maximum_iterations=task.max_length,
    )
    return Decoded(ids, scores[:, tf.newaxis]), position


def _trimmed(decoded, length):
    return decoded._replace(ids=decoded.ids[:, :, :length])


def _choose_tokens(logits, query, task, choose):
    """Return the chosen tokens [B] and their log probabilities [B] for logits [B, V]."""
    if task.constrain is None and choose is None:
        token = maximum.argmax(logits)
        return token, tf.math.log(tf.gather(tf.nn.softmax(logits), token, batch_dims=1))
    log_probs = allowed = tf.nn.log_softmax(logits)
    if task.constrain is not None:
        allowed = _constrained(log_probs[:, tf.newaxis], query, task)[:, 0]
    token = maximum.argmax(allowed) if choose is None else choose(allowed, query.position)
    return token, tf.gather(log_probs, token, batch_dims=1)


class BeamState(NamedTuple):
    """The state of the loop of beam search, with K beams.

    Each example has K unfinished hypotheses, called alive, and K finished ones, which end with EOS.
    """

    position: tf.Tensor  # int32 scalar, the position of the next token
    alive_ids: tf.Tensor  # int32 [B, K, L], without EOS
    alive_log_probs: tf.Tensor  # float32 [B, K]
    ancestors: tf.Tensor  # int32 [B, K, L], see `Query`
    finished_ids: tf.Tensor  # int32 [B, K, L], with EOS
    finished_scores: tf.Tensor  # float32 [B, K], log probability divided by the length penalty
    finished: tf.Tensor  # bool [B, K], whether this beam has a finished hypothesis
    done: tf.Tensor  # bool [B], whether the search of the example has ended
    cache: tuple


def beam_search(task: Task, beam_size: int, alpha: Any) -> Decoded:
    """Return the `beam_size` best outputs of each example.

    At every position the search keeps the K most likely unfinished hypotheses and the K best
    finished ones, which end with EOS. The score of a finished hypothesis is its log probability
    divided by the length penalty ((5 + length) / 6)^alpha, where the length includes EOS.

    The search of an example ends at the maximum output length. It ends earlier if there are K
    finished hypotheses, and no unfinished one can become better than the worst of them. If no
    hypothesis has finished at the end, the search returns the unfinished hypotheses. Their scores
    are log probabilities without a length penalty. If there are fewer than K outputs, the other
    beams are empty and have the score -10,000,000.

    Args:
        task: `Task`.
        beam_size: int K.
        alpha: float. Exponent of the length penalty.

    Returns:
        `Decoded` with K beams.

    References: Wu et al. 2016, eq. 14; T2T `beam_search.beam_search`, which gives the same numbers.
    """
    return _trimmed(*untrimmed_beam_search(task, beam_size, alpha))


def untrimmed_beam_search(task: Task, beam_size: int, alpha: Any) -> tuple[Decoded, tf.Tensor]:
    """Return the result of `beam_search` with ids of the maximum length, for XLA.

    Returns:
        (`Decoded` with ids [B, K, L], the length of the ids that `beam_search` returns: int32
        scalar).
    """
    penalty_when_full = _length_penalty(task.max_output_length, alpha)  # [B]
    (last,) = tf.while_loop(
        lambda state: ~tf.reduce_all(state.done),
        lambda state: (_take_step(task, state, beam_size, alpha, penalty_when_full),),
        (_start_beams(task, beam_size),),
        maximum_iterations=task.max_length,
    )
    return _best_outputs(last), last.position


def _length_penalty(length, alpha):
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


class _Candidates(NamedTuple):
    """The 2 K best continuations of the unfinished hypotheses of each example."""

    ids: tf.Tensor  # int32 [B, 2 K, L]
    scores: tf.Tensor  # float32 [B, 2 K], log probabilities divided by the length penalty
    parents: tf.Tensor  # int32 [B, 2 K], the beam that each candidate continues
    ended: tf.Tensor  # bool [B, 2 K], whether the candidate ends with EOS


def _take_step(task, state, beam_size, alpha, penalty_when_full):
    """Return the `BeamState` after one more token.

    Args:
        task, beam_size, alpha: as for `beam_search`.
        state: `BeamState`.
        penalty_when_full: float32 [B], the length penalty at the maximum output length.
    """
    position = state.position + 1
    penalty = _length_penalty(position, alpha)
    candidates, cache = _make_candidates(task, state, beam_size, penalty)
    alive_ids, alive_log_probs, parents = _best_alive(candidates, state, beam_size, penalty)
    finished_ids, finished_scores, finished = _best_finished(candidates, state, beam_size)
    ancestors = tf.gather(state.ancestors, parents, batch_dims=1)

    # `best_score` is an upper bound of all future scores. It assumes that the best unfinished
    # hypothesis loses no more probability and ends either now or at the maximum length. The signs
    # of `best` and `alpha` determine which of these two scores is larger.
    best = alive_log_probs[:, 0] + task.eos_bonus
    best_score = tf.maximum(best / _length_penalty(position + 1, alpha), best / penalty_when_full)
    # T2T continues until the searches of all examples have ended. The results are the same.
    settled = tf.reduce_min(finished_scores, axis=1) > best_score
    nothing_left = alive_log_probs[:, 0] == -float("inf")
    return BeamState(
        position=position,
        alive_ids=alive_ids,
        alive_log_probs=alive_log_probs,
        ancestors=_write_column(ancestors, state.position, parents),
        finished_ids=finished_ids,
        finished_scores=finished_scores,
        finished=finished,
        done=settled | nothing_left | (position >= task.max_output_length),
        cache=cache,
    )


def _make_candidates(task, state, beam_size, penalty):
    """Return (`_Candidates`, the cache after this token)."""
    query = Query(state.position, state.alive_ids, state.ancestors)
    logits, cache = task.next_logits(query, state.cache)
    vocab_size = logits.shape[-1] or tf.shape(logits)[-1]
    # At most K of the 2 K candidates end with EOS, because each beam has only one candidate with
    # EOS. So at least K candidates remain unfinished.
    log_probs, beam_and_token = _best_continuations(
        logits, query, task, state.alive_log_probs, 2 * beam_size
    )
    scores = log_probs / penalty
    parents, tokens = beam_and_token // vocab_size, beam_and_token % vocab_size
    ids = _write_column(tf.gather(state.alive_ids, parents, batch_dims=1), state.position, tokens)
    ended = (tokens == EOS) & ~state.done[:, tf.newaxis] & (scores > -float("inf"))
    return _Candidates(ids, scores, parents, ended), cache


def _best_alive(candidates, state, beam_size, penalty):
    """Return the K best unfinished candidates.

    An example whose search is done keeps its beams.

    Finished candidates are no longer alive. T2T keeps finished candidates alive if fewer than K
    other candidates are left. This happens only at the first tokens, and only if the vocabulary is
    smaller than 2 K.

    Returns:
        (ids int32 [B, K, L], log probabilities float32 [B, K], parents int32 [B, K]).
    """
    scores = tf.where(candidates.ended, -float("inf"), candidates.scores)
    scores, kept = tf.math.top_k(scores, k=beam_size)
    ids = tf.gather(candidates.ids, kept, batch_dims=1)
    done = state.done[:, tf.newaxis]
    return (
        tf.where(done[:, :, tf.newaxis], state.alive_ids, ids),
        tf.where(done, state.alive_log_probs, scores * penalty),
        tf.gather(candidates.parents, kept, batch_dims=1),
    )


def _best_finished(candidates, state, beam_size):
    """Return the K best of the earlier finished hypotheses and the new ones.

    Returns:
        (ids int32 [B, K, L], scores float32 [B, K], bool [B, K]: whether the entry is finished).
    """
    ended_scores = tf.where(candidates.ended, candidates.scores, -float("inf"))
    all_scores = tf.concat([state.finished_scores, ended_scores], axis=1)
    scores, best = tf.math.top_k(all_scores, k=beam_size)
    all_ids = tf.concat([state.finished_ids, candidates.ids], axis=1)
    all_finished = tf.concat([state.finished, candidates.ended], axis=1)
    return (
        tf.gather(all_ids, best, batch_dims=1),
        scores,
        tf.gather(all_finished, best, batch_dims=1),
    )


def _start_beams(task, beam_size):
    """Return the `BeamState` before the first token."""
    ids = tf.zeros([task.batch_size, beam_size, task.max_length], tf.int32)
    # The search starts with one empty hypothesis. The other beams start with probability 0, because
    # otherwise all beams would remain equal.
    log_probs = tf.constant([[0.0] + [-float("inf")] * (beam_size - 1)])
    return BeamState(
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


def _best_outputs(last):
    """Return the `Decoded` of the last `BeamState`.

    An example without a finished hypothesis gets its unfinished hypotheses.
    """
    any_ended = tf.reduce_any(last.finished, axis=1, keepdims=True)
    possible = last.alive_log_probs > -float("inf")
    alive_ids = tf.where(possible[:, :, tf.newaxis], last.alive_ids, 0)
    ids = tf.where(any_ended[:, :, tf.newaxis], last.finished_ids, alive_ids)
    scores = tf.where(any_ended, last.finished_scores, last.alive_log_probs)
    return Decoded(ids, tf.where(scores > -float("inf"), scores, -INFINITY))


def _best_continuations(logits, query, task, alive_log_probs, count):
    """Return the `count` best continuations over all beams of each example.

    Returns:
        log probabilities float32 [B, count], and int32 [B, count]: beam · V + token.
    """
    if task.constrain is not None:
        logits = _constrained(tf.nn.log_softmax(logits), query, task)
    # Select the best tokens of each beam, and then the best of these over all beams.
    batch_size, beams, vocab_size = tf.unstack(tf.shape(logits))
    # If the vocabulary size is a Python number, `top_k` adds only one of its two algorithms to the
    # graph.
    if logits.shape[-1]:
        vocab_size = logits.shape[-1]
        count_of_beam = min(count, vocab_size)
    else:
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
    """Return log probabilities [B, K, V] with -inf for forbidden tokens.

    `task.constrain` decides which tokens are forbidden. If `task.constrain` forbids all tokens of a
    beam, only EOS is allowed for this beam. The other beams do not affect this decision.
    """
    allowed = task.constrain(log_probs, query)
    is_stuck = tf.reduce_max(allowed, axis=2, keepdims=True) == -float("inf")
    is_eos = tf.range(tf.shape(allowed)[2]) == EOS
    return tf.where(is_stuck & is_eos, log_probs - task.eos_penalty, allowed)


def _write_column(ids, position, tokens):
    """Return `ids` [..., L] with `tokens` [...] at `position`."""
    is_position = tf.range(tf.shape(ids)[-1]) == position
    return tf.where(is_position, tokens[..., tf.newaxis], ids)


_BLOCK = 128


def top_k(x: tf.Tensor, k: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the result of `tf.math.top_k` over the last axis, faster for large axes.

    The function splits the axis into blocks and computes the maximum of each block. The k largest
    values must be in the k blocks with the largest maxima, so only these blocks are searched. Equal
    values are sorted by their indices, as in `tf.math.top_k`.

    Args:
        x: float tensor [..., V].
        k: int or int32 scalar, at most V.

    Returns:
        (values, indices), [..., k].
    """
    size = x.shape[-1] or tf.shape(x)[-1]

    def plain():
        return tuple(tf.math.top_k(x, k))

    # XLA would compile both branches of `tf.cond`, even if `x` has too few blocks for the second.
    if private_api.is_compiled_by_xla():
        return plain()
    is_small = size < 4 * k * _BLOCK
    if isinstance(is_small, bool):  # V and k are known
        return plain() if is_small else _top_k_by_blocks(x, k, size)
    return tf.cond(is_small, plain, lambda: _top_k_by_blocks(x, k, size))


def _top_k_by_blocks(x, k, size):
    known, rank = x.shape[-1], x.shape.rank - 1
    # If the size is known, prefer a block length that divides it, which needs no padding.
    lengths = range(_BLOCK, _BLOCK // 2, -1)
    length = next((length for length in lengths if known and known % length == 0), _BLOCK)
    if not known or known % length:
        padding = [[0, 0]] * rank + [[0, -size % length]]
        x = tf.pad(x, padding, constant_values=-float("inf"))
    blocks = tf.reshape(x, tf.concat([tf.shape(x)[:-1], [-1, length]], axis=0))
    maxima = tf.reduce_max(blocks, axis=-1)
    _, chosen = tf.math.top_k(maxima, k)
    chosen = tf.sort(chosen, axis=-1)  # this keeps equal values in the order of their indices
    candidates = tf.gather(blocks, chosen, batch_dims=rank)
    flat = tf.concat([tf.shape(x)[:-1], [k * length]], axis=0)
    values, index = tf.math.top_k(tf.reshape(candidates, flat), k)
    block = tf.gather(chosen, index // length, batch_dims=rank)
    return values, block * length + index % length
