"""Runs a search that XLA compiles, and decides when to use XLA.

XLA compiles a search once for each shape. So the sources are padded to few shapes:

    bucket(20)                        32: the number of examples and the length are powers of two
    is_used(model, options, 20)       whether XLA compiles the search
    run(model, function, rows, …)     a `Decoded`, as without XLA

Padding does not change the outputs. Every example has its own maximum output length, which does not
count the padding. An example that only fills the batch has the maximum output length 0. It is a
copy of another example, so it does not increase the number of steps in depth.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ut_keras.decoding import batch_plan, xla_fallback
from ut_keras.decoding.beam_search import Decoded
from ut_keras.decoding.decoded_model import DecodedModel
from ut_keras.decoding.options import AUTO, Options

LEAST_LENGTH = 8  # the smallest length of a padded source
# With "auto", the largest maximum output length. The cache of a compiled search has this length
# from the start, and attention reads the complete cache. Without XLA, the cache grows.
MOST_LENGTH = 1024
_BATCH_COST = 256  # the time of one more batch, as a number of positions; a guess
_WORK = "the search"


def bucket(size: Any, least: int = 1) -> Any:
    """Return the smallest power of two that is at least `size` and `least`.

    Args:
        size: int, or int32 scalar in a graph.
        least: int, a power of two.
    """
    if not tf.is_tensor(size):
        return max(least, 1 << max(size - 1, 0).bit_length())
    powers = tf.constant([1 << exponent for exponent in range(31)])
    return tf.maximum(powers[tf.searchsorted(powers, [size])[0]], least)


def is_used(model: DecodedModel, options: Options, source_length: int) -> bool:
    """Return whether XLA compiles a search.

    Args:
        model: a `DecodedModel`.
        options: checked `Options`.
        source_length: int S. It has no effect if `jit_compile` is True.

    Raises:
        ValueError: if `jit_compile=True` is not supported for the model.
    """
    if not xla_fallback.is_allowed(model, _WORK, options.jit_compile):
        return False
    is_auto = options.jit_compile == AUTO
    reason = why_not_compiled(model)
    if not is_auto:
        if reason:
            raise ValueError(f"jit_compile must be False or {AUTO!r}: {reason}. Received: True.")
        return True
    if why_padding := batch_plan.why_equal_lengths(model):
        reason = reason or f"sources must not be padded to few lengths, because {why_padding}"
    if (length := source_length + options.decode_length) > MOST_LENGTH:
        reason = reason or f"the maximum output length, {length}, is above {MOST_LENGTH}"
    if reason:
        xla_fallback.log_reason(_WORK, reason)
    return not reason


def why_not_compiled(model: DecodedModel) -> str:
    """Return why XLA cannot compile the search of a model, or ""."""
    if model.encoder is None:
        return "XLA cannot compile the search of a language model"
    if not model.decoder_is_causal:
        return "XLA cannot compile the search of a decoder that is not causal"
    return ""


def plan(
    model: DecodedModel, options: Options, lengths: Sequence[int], tokens: int, max_examples: int
) -> list[list[int]]:
    """Group sequences into batches of little padding, if XLA compiles the search.

    Without XLA, and where padding matters, the batches are those of `batch_plan.plan`. The batches
    of sampling are the same too, because the samples of an example depend on its batch.

    Args:
        model: a `DecodedModel`.
        options: checked `Options`.
        lengths, tokens, max_examples: as in `batch_plan.plan`.

    Returns:
        as in `batch_plan.plan`, the longest sequences first.
    """
    same_length = bool(batch_plan.why_equal_lengths(model))
    shortest = min(lengths, default=0)
    if same_length or options.temperature or not (shortest and is_used(model, options, shortest)):
        return batch_plan.plan(lengths, tokens, max_examples, same_length)
    return plan_powers(lengths, tokens, max_examples)


def plan_powers(lengths: Sequence[int], tokens: int, max_examples: int) -> list[list[int]]:
    """Group sequences into batches whose numbers of examples are powers of two.

    The plan sorts the sequences by length, and each batch has consecutive sequences. Of all such
    plans, it has the lowest cost. The cost of a batch is its number of positions, padding included,
    plus a constant, because many small batches are slow. Only the last batch may have another
    number of examples.

    Args:
        lengths, tokens, max_examples: as in `batch_plan.plan`.
    """
    order = sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=True)
    total = len(order)
    # costs[i] is the lowest cost of a plan for order[i:]. sizes[i] is the size of its first batch.
    costs, sizes = [0] * (total + 1), [1] * total
    for start in reversed(range(total)):
        length = bucket(lengths[order[start]], LEAST_LENGTH)
        found, size, fits = [], 1, True
        while fits:
            found.append((_BATCH_COST + size * length + costs[min(start + size, total)], -size))
            size *= 2
            fits = size < 2 * (total - start) and size <= (max_examples or size)
            fits = fits and size * length <= (tokens or size * length)
        costs[start], negative_size = min(found)
        sizes[start] = -negative_size
    batches, start = [], 0
    while start < total:
        batches.append(order[start : start + sizes[start]])
        start += sizes[start]
    return batches


def pad(model: DecodedModel, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return the examples of a batch, padded to one of few shapes.

    Args:
        model: a `DecodedModel` with an encoder.
        rows: dict with "inputs" int32 [B, S] or [B, sentences, words], "forced_prefix" int32 [B, P]
            and "max_output_length" int32 [B]. In a graph, B, S and P may be unknown, and B may be
            0.

    Returns:
        dict with the same keys.
    """
    source, prefix = rows["inputs"], rows["forced_prefix"]
    length, prefix_length = _size(source, 1), _size(prefix, 1)
    number = _size(source, 0)
    fill = bucket(number) - number
    # An empty batch has no example to copy. So an empty example is added at the index `number`.
    indices = tf.minimum(tf.range(number + fill), tf.maximum(number - 1, 0))
    paddings = [[0, 1], [0, 0], [0, 0]][: source.shape.rank]
    # Stories have a fixed size. Sources of some models must not be padded.
    if source.shape.rank == 2 and not batch_plan.why_equal_lengths(model):
        paddings[1] = [0, bucket(length, LEAST_LENGTH) - length]
    source = tf.pad(source, paddings)
    prefix = tf.pad(prefix, [[0, 1], [0, bucket(prefix_length) - prefix_length]])
    return {
        "inputs": tf.gather(source, indices),
        "forced_prefix": tf.gather(prefix, indices),
        "max_output_length": tf.pad(rows["max_output_length"], [[0, fill]]),
    }


def _size(x, axis):
    """Return the size of an axis: an int if it is known, else an int32 scalar."""
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


def run(
    model: DecodedModel,
    function: Callable[..., Any],
    rows: Mapping[str, Any],
    values: Mapping[str, Any],
    options: Options,
) -> Decoded | None:
    """Return the outputs of a compiled search for the examples of a batch.

    In a graph, XLA compiles the search when the graph runs, and the result is never None.

    Args:
        model: a `DecodedModel`.
        function: function (padded rows, values) -> (`Decoded`, length of its ids), which XLA
            compiles.
        rows: as for `pad`, without padding.
        values: the other arguments of the function.
        options: the `Options` of the search.

    Returns:
        `Decoded` without padding, or None. With `options.jit_compile="auto"`, the result is None if
            XLA cannot compile the function, or if the padded batch does not fit in memory. The log
            then has a line that says why.
    """
    number = _size(rows["inputs"], 0)
    if not tf.executing_eagerly():
        decoded, length = function(pad(model, rows), values)
        return Decoded(decoded.ids[:number, :, :length], decoded.scores[:number])

    def search():
        decoded, length = function(pad(model, rows), values)
        return decoded, int(length)  # `int` waits for the device

    shape = rows["inputs"].shape
    found = xla_fallback.call(model, _WORK, options.jit_compile, shape, search)
    if found is None:
        return None
    decoded, length = found
    return Decoded(decoded.ids[:number, :, :length], decoded.scores[:number])
