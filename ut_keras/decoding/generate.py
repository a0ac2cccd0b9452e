"""What `model.generate` does: checks its options, and runs a search that is traced once.

A trace serves all batches, lengths and values of options; only what changes the graph, such as the
number of beams, makes a new one.
"""

import dataclasses
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras import limits
from ut_keras.decoding import beam_search, constraints, side_by_side
from ut_keras.layers.basic import symbol_ids
from ut_keras.layers.basic.signature import Shape

# The options that are numbers in a graph, changed without a new trace.
_FLOATS = ("alpha", "eos_penalty", "temperature", "top_p")
_INTS = ("decode_length", "min_length", "top_k")
_OFF_AT_ZERO = ("eos_penalty", "temperature", "min_length")  # what has no place in a graph then
_LIMITS = {
    "beam_size": (1, None),
    "alpha": (0, limits.MOST_ALPHA),
    "decode_length": (0, limits.MOST_POSITIONS),
    "min_length": (0, None),
    "eos_penalty": (None, None),
    "no_repeat_ngram_size": (0, None),
    "temperature": (0, None),
    "top_k": (0, None),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """What can be asked of a search.

    In a traced function its numbers may be scalar tensors, as `numbers` gives them. Their values
    are not known there, so whoever makes them calls `check` before.

    Fields:
        beam_size: int. 1 is greedy.
        alpha: float. Length penalty ((5 + length) / 6)^alpha of beam search.
        decode_length: int. Positions beyond the source's length; of a language model, beyond the
            prompt's.
        own_room: bool. Whether a source's length is its own, up to its last id; False, as in T2T:
            that of the batch, padding included.
        min_length: int. Symbols before the first EOS, unless that is forced, or all that is left.
        eos_penalty: float. What EOS costs more, in log probability.
        no_repeat_ngram_size: int n. No n symbols in a row are written twice; 0: they may.
        forced_prefix: int [B, P] that results begin with, whatever else is asked, 0-padded on the
            right. It is scored.
        temperature: float. Above 0, symbols are drawn instead of searched for.
        top_k: int. Draws from so many of the likeliest; 0: all.
        top_p: float in (0, 1]. Draws from the likeliest that have this probability together.
        seed: int, or scalar tensor. Of the draws; without it they differ from call to call.
        cache: bool. Whether earlier positions are kept; False runs over the whole prefix.
        num_steps: int. Steps in depth, see `Transformer.with_steps`; None: as many as ever.
    """

    beam_size: int = 1
    alpha: float = 0.6
    decode_length: int = 50
    own_room: bool = False
    min_length: int = 0
    eos_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    forced_prefix: Any = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    cache: bool = True
    num_steps: int | None = None

    def check(self) -> None:
        """Raises `ValueError` for an option out of range."""
        for name, (least, most) in _LIMITS.items():
            received = getattr(self, name)
            expected = limits.why_not(received, least, most)
            if expected:
                raise ValueError(f"{name} must be {expected}. Received: {received}.")
        if self.num_steps is not None:
            expected = limits.why_not(self.num_steps, 1, limits.MOST_STEPS)
            if expected:
                raise ValueError(f"num_steps must be {expected}. Received: {self.num_steps}.")
        if isinstance(self.seed, numbers.Integral):
            expected = limits.why_not(self.seed, 0, limits.LARGEST_SEED)
            if expected:
                raise ValueError(f"seed must be {expected}. Received: {self.seed}.")
        if 0 < self.temperature < limits.LEAST_TEMPERATURE:
            raise ValueError(
                f"temperature must be 0 or at least {limits.LEAST_TEMPERATURE}. "
                f"Received: {self.temperature}."
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1. Received: {self.top_p}.")
        if self.temperature and self.beam_size > 1:
            raise ValueError(
                "temperature above 0 draws one result; it needs beam_size=1. "
                f"Received: temperature={self.temperature}, beam_size={self.beam_size}."
            )
        if not self.temperature and (self.top_k or self.top_p < 1):
            raise ValueError(
                "top_k and top_p say what to draw from; they need a temperature above 0. "
                f"Received: temperature=0, top_k={self.top_k}, top_p={self.top_p}."
            )

    def numbers(self) -> dict[str, tf.Tensor]:
        """What a graph takes as inputs: dict from name to scalar tensor.

        Another value needs no new trace; an option that is left out of it or comes into it does.
        """
        values = {name: tf.constant(getattr(self, name), tf.float32) for name in _FLOATS}
        values |= {name: tf.constant(getattr(self, name), tf.int32) for name in _INTS}
        for name in _OFF_AT_ZERO:
            if not getattr(self, name):
                del values[name]
        if self.temperature and self.seed is not None:
            values["seed"] = tf.constant(self.seed % 2**31, tf.int32)
        return values

    def sets(self, name: str) -> bool:
        """bool. Whether a number is not 0; a tensor is there because it is not."""
        value = getattr(self, name)
        return tf.is_tensor(value) or bool(value)


def generate(
    model: keras.Model, features: Mapping[str, Any], options: Options
) -> beam_search.Decoded:
    """Writes the targets.

    Args:
        model: with `make_next_logits`, `encoder` and `specs`, such as a `Transformer`.
        features: dict with "inputs", see `Transformer.generate`.
        options: `Options`.
    Returns:
        `Decoded`.
    Raises:
        ValueError: if an option is out of range or the source is missing.
    """
    if not any(tf.is_tensor(getattr(options, name)) for name in (*_FLOATS, *_INTS)):
        options.check()
    model.check_steps(options.num_steps)
    vocab_size = model.specs["targets"].vocab_size
    if options.beam_size > vocab_size:
        raise ValueError(
            f"beam_size must be at most the size of the vocabulary, {vocab_size}. "
            f"Received: {options.beam_size}."
        )
    given = _given(model, features)
    (source,) = given.values()
    prefix = _forced_prefix(options.forced_prefix, source, vocab_size)
    seed = np.random.randint(2**31) if options.seed is None else options.seed % 2**31
    search = compiled_search(model, source.shape, _graph(options))
    values = {
        **{name: tf.cast(getattr(options, name), tf.float32) for name in _FLOATS},
        **{name: tf.cast(getattr(options, name), tf.int32) for name in _INTS},
        "seed": tf.stack([tf.cast(seed, tf.int32), 0]),
    }
    rows = {"given": given, "forced_prefix": prefix}
    if options.sets("temperature"):  # what a row draws depends on its place in the batch
        return search(rows, values)
    return _joined(side_by_side.run(search, rows, values))


def _joined(parts):
    """`Decoded` of a batch from those of its parts, some of which ended earlier."""
    if len(parts) == 1:
        return parts[0]
    length = max(part.ids.shape[2] for part in parts)
    ids = [tf.pad(part.ids, [[0, 0], [0, 0], [0, length - part.ids.shape[2]]]) for part in parts]
    return beam_search.Decoded(
        tf.concat(ids, axis=0), tf.concat([part.scores for part in parts], axis=0)
    )


@dataclasses.dataclass(frozen=True)
class _Graph:
    """The options that decide what is traced."""

    beam_size: int
    own_room: bool
    cache: bool
    draws: bool
    no_repeat_ngram_size: int
    has_min_length: bool
    has_eos_penalty: bool
    has_forced_prefix: bool
    num_steps: int | None


def _graph(options):
    return _Graph(
        options.beam_size,
        options.own_room,
        options.cache,
        options.sets("temperature"),
        options.no_repeat_ngram_size,
        options.sets("min_length"),
        options.sets("eos_penalty"),
        options.forced_prefix is not None,
        options.num_steps,
    )


def _values_spec():
    return {
        **{name: tf.TensorSpec([], tf.float32) for name in _FLOATS},
        **{name: tf.TensorSpec([], tf.int32) for name in _INTS},
        "seed": tf.TensorSpec([2], tf.int32),
    }


def compiled_search(model: keras.Model, source_shape: Shape, graph: _Graph) -> Callable[..., Any]:
    """The search as a `tf.function`."""
    searches = model.__dict__.setdefault("_searches", {})
    if graph not in searches:

        def run(rows, values):
            values = {**values, "forced_prefix": rows["forced_prefix"]}
            return _search(model, rows["given"], graph, values)

        name = "inputs" if model.encoder is not None else "prompt"
        # bAbI's sentences have a fixed number of words.
        source = tf.TensorSpec([None, None, *source_shape[2:]], tf.int32)
        rows = {"given": {name: source}, "forced_prefix": tf.TensorSpec([None, None], tf.int32)}
        signature = [rows, _values_spec()]
        searches[graph] = tf.function(run, input_signature=signature, autograph=False)
    return searches[graph]


def fixed_search(
    model: keras.Model, given: Mapping[str, tf.Tensor], options: Options
) -> beam_search.Decoded:
    """The search in a graph of known shapes, all the way, for runtimes that want those.

    Args:
        model: as for `generate`; no language model.
        given: {"inputs": int32 [B, S]} or [B, sentences, words], B and S known.
        options: `Options` of Python numbers.
    Returns:
        `Decoded`; ids int32 [B, beams, S + decode_length].
    """
    (source,) = given.values()
    values = {name: getattr(options, name) for name in (*_FLOATS, *_INTS)}
    values["seed"] = [options.seed or 0, 0]
    found = _search(model, given, _graph(options), values)
    room = [source.shape[0], options.beam_size, source.shape[1] + options.decode_length]
    ids = tf.pad(found.ids, [[0, 0], [0, 0], [0, room[2] - tf.shape(found.ids)[2]]])
    return beam_search.Decoded(tf.reshape(ids, room), found.scores)


def _search(model, given, graph, values):
    (source,) = given.values()
    max_length = values["decode_length"]
    if "inputs" in given:
        is_fixed = isinstance(max_length, int)
        max_length += source.shape[1] if is_fixed else tf.shape(source)[1]
    next_logits, cache = model.make_next_logits(
        given, graph.beam_size, max_length, graph.cache, graph.num_steps
    )
    task = beam_search.Task(
        next_logits,
        cache,
        tf.shape(source)[0],
        max_length,
        _rooms(given, graph.own_room, values["decode_length"]),
        _constraint(graph, values),
        tf.maximum(-values["eos_penalty"], 0.0),
    )
    if graph.draws:
        names = ("temperature", "top_k", "top_p", "seed")
        return beam_search.greedy_search(task, sampler(*(values[name] for name in names)))
    if graph.beam_size == 1:
        return beam_search.greedy_search(task)
    return beam_search.beam_search(task, graph.beam_size, values["alpha"])


def _rooms(given, own_room, decode_length):
    """How many symbols each row may write, int32 [B]."""
    (source,) = given.values()
    batch_size, length = tf.unstack(tf.shape(source)[:2])
    if "prompt" in given:
        length = 0
    elif own_room and source.shape.rank == 2:  # stories are of one size, whatever shares the batch
        ends = tf.where(source != 0, tf.range(1, length + 1), 0)
        return tf.maximum(tf.reduce_max(ends, axis=1), 0) + decode_length  # there may be no column
    return tf.fill([batch_size], length + decode_length)


def _constraint(graph, values):
    """All that is asked, or None; the last word has what is forced."""
    wanted = []
    if graph.has_eos_penalty:
        wanted.append(constraints.eos_penalty(values["eos_penalty"]))
    if graph.has_min_length:
        wanted.append(constraints.min_length(values["min_length"]))
    if graph.no_repeat_ngram_size:
        wanted.append(constraints.no_repeated_ngrams(graph.no_repeat_ngram_size))
    constrain = constraints.all_of(wanted)
    if graph.has_forced_prefix:
        return constraints.forced_prefix(values["forced_prefix"], constrain)
    return constrain


def _given(model, features):
    """{"inputs": …}, or {"prompt": …} for a language model; int32."""
    if model.encoder is not None:
        if "inputs" not in features:
            raise ValueError(f"features must hold 'inputs'. Received: {sorted(features)}.")
        return {"inputs": symbol_ids.as_ids(features["inputs"], "inputs")}
    prompt = features.get("inputs", features.get("targets"))
    if prompt is None:
        raise ValueError(f"features must hold a prompt, 'inputs'. Received: {sorted(features)}.")
    prompt = symbol_ids.as_ids(prompt, "A prompt")
    if prompt.shape.rank != 2:
        raise ValueError(f"A prompt must be [batch, length]. Received: {prompt.shape}.")
    return {"prompt": prompt}


def _forced_prefix(prefix, source, vocab_size):
    """int32 [B, P]; of one column without one."""
    if prefix is None:
        return tf.zeros([tf.shape(source)[0], 1], tf.int32)
    prefix, batch_size = symbol_ids.as_ids(prefix, "forced_prefix", vocab_size), source.shape[0]
    if prefix.shape.rank != 2 or prefix.shape[0] != batch_size or not prefix.shape[1]:
        raise ValueError(f"forced_prefix must be [{batch_size}, length]. Received: {prefix.shape}.")
    return prefix


def sampler(temperature: Any, top_k: Any, top_p: Any, seed: tf.Tensor) -> Callable[[Any, Any], Any]:
    """A `choose` for `greedy_search`.

    Args:
        temperature: float > 0. Log probabilities are divided by it: below 1 makes the likely
            likelier.
        top_k: int. Only so many of the likeliest are drawn from; 0: all.
        top_p: float in (0, 1]. Only the likeliest are drawn from, as few as have this probability
            together (Holtzman et al. 2020).
        seed: int32 [2]. The same seed draws the same symbols from the same batch.
    """

    def choose(log_probs, position):
        logits = log_probs / temperature
        ordered = tf.sort(logits, axis=-1, direction="DESCENDING")
        vocab_size = tf.shape(logits)[-1]
        kept = tf.where(top_k > 0, tf.minimum(top_k, vocab_size), vocab_size)
        ordered = tf.where(tf.range(vocab_size) < kept, ordered, -float("inf"))
        probs = tf.nn.softmax(ordered)
        before = tf.cumsum(probs, axis=-1, exclusive=True)
        ordered = tf.where(before < top_p, ordered, float("inf"))
        least = tf.reduce_min(
            tf.where(tf.math.is_finite(ordered), ordered, float("inf")), axis=-1, keepdims=True
        )
        logits = tf.where(logits >= least, logits, -float("inf"))
        # The Gumbel-max trick, whose noise may be drawn without state.
        noise = tf.random.stateless_uniform(
            tf.shape(logits), seed + tf.stack([0, position]), minval=1e-20, maxval=1.0
        )
        return tf.argmax(logits - tf.math.log(-tf.math.log(noise)), -1, output_type=tf.int32)

    return choose
