"""Implements `model.generate`: checks the features and runs a compiled search.

    generate                     checks the arguments, and splits the batch into groups
        _search_group            searches the outputs of one group
            traced_search        a search that serves all batch sizes and lengths
            xla_search_function  a search that XLA compiles for one shape
    fixed_search                 a search in the caller's graph, where all shapes are static

One trace of `traced_search` serves all values of numeric options. Only options that change the
graph, such as the number of beams, require a new trace.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ut_keras.decoding import (
    batch_plan,
    batch_seed,
    beam_search,
    constraints,
    next_logits,
    parallel_batch,
    sampling,
    score,
    xla_search,
)
from ut_keras.decoding.decoded_model import DecodedModel
from ut_keras.decoding.options import NUMBERS, Options
from ut_keras.layers.basic import id_checks
from ut_keras.layers.basic.signature import Shape, StepInputs
from ut_keras.ops import cast_once, compiled, own_layers, private_api

# If one of these options is 0, the graph has no input for this option.
_OMITTED_AT_ZERO = ("eos_penalty", "temperature", "min_length")


def generate(
    model: DecodedModel, features: Mapping[str, Any], options: Options
) -> beam_search.Decoded:
    """Return the outputs of a model, see `Seq2Seq.generate`.

    Args:
        model: `DecodedModel`.
        features: dict with the ids of the sources or prompts.
        options: checked `Options`. The model must support their num_steps and exit_threshold.
    """
    vocab_size = model.specs["targets"].vocab_size
    if options.beam_size > vocab_size:
        raise ValueError(
            f"beam_size must be at most the size of the vocabulary, {vocab_size}. "
            f"Received: {options.beam_size}."
        )
    source_features = _source_features(model, features)
    ((name, source),) = source_features.items()
    prefix = _forced_prefix(options.forced_prefix, source, vocab_size)
    seed = _seed(options)
    if not tf.executing_eagerly():
        if private_api.is_compiled_by_xla():
            return _search_inside_xla(model, source_features, prefix, seed, options)
        source = batch_plan.require_equal_lengths(model, source, options.per_example_length)
        return _search_group(model, {name: source}, prefix, seed, options)
    groups = batch_plan.split(model, source, options.per_example_length)
    parts = [
        _search_group(
            model,
            {name: group.ids},
            prefix if len(groups) == 1 else tf.gather(prefix, group.indices),
            # Without the number, several groups would have the same samples.
            batch_seed.of_group(seed, number),
            options,
        )
        for number, group in enumerate(groups)
    ]
    return batch_plan.restore_order(beam_search.concat(parts, source.shape[1]), groups)


def _search_inside_xla(model, source_features, prefix, seed, options):
    """Return `Decoded` for static shapes. The ids have the maximum length.

    The ids after an output are 0. XLA has no assertions. So models for which padding matters must
    get sources of one length.
    """
    (source,) = source_features.values()
    if "prompt" in source_features:
        raise ValueError("generate with jit_compile=True requires a model with an encoder.")
    if not source.shape.is_fully_defined() or not isinstance(options.decode_length, int):
        raise ValueError(
            "generate with jit_compile=True requires inputs of a static shape and an int as "
            f"decode_length. Received: {source.shape}, {options.decode_length!r}."
        )
    seed = tf.stack([tf.cast(seed, tf.int32), 0])
    decoded = fixed_search(model, source_features, options, seed, prefix)
    return _with_steps(model, source_features, decoded, options)


def _with_steps(model, source_features, decoded, options):
    """Return `Decoded` with each position's number of steps, if `return_steps` is set."""
    if not options.return_steps:
        return decoded
    source_steps, target_steps = score.steps(model, source_features, decoded.ids, options)
    return decoded._replace(source_steps=source_steps, target_steps=target_steps)


def _seed(options):
    """Return the seed of a search in [0, 2^31).

    If the options have no seed, the function samples one. In a traced function without a
    temperature, the seed has no effect and is 0.
    """
    seed = options.seed
    if seed is None and not tf.executing_eagerly():
        # A seed from NumPy would be a constant, so each call would return the same samples.
        is_used = bool(options.temperature)
        return tf.random.uniform([], maxval=2**31 - 1, dtype=tf.int32) if is_used else 0
    if seed is None:
        return np.random.randint(2**31)
    # In an int32 tensor, 2^31 would become -2^31.
    return (tf.cast(seed, tf.int64) if tf.is_tensor(seed) else seed) % 2**31


def _search_group(model, source_features, prefix, seed, options):
    """Return `Decoded` for examples that may share a batch."""
    (source,) = source_features.values()
    trace_options = options_of_trace(options)
    search = traced_search(model, source.shape, trace_options)
    values = {name: tf.cast(getattr(options, name), dtype) for name, dtype in NUMBERS.items()}
    values["seed"] = tf.stack([tf.cast(seed, tf.int32), 0])
    rows = {"source_features": source_features, "forced_prefix": prefix}
    decoded = None
    if _uses_xla(model, source, options):
        decoded = _search_with_xla(model, source_features, prefix, values, options)
    if decoded is None and trace_options.temperature:
        # The random samples of an example depend on its index in the batch.
        decoded = search(rows, values)
    elif decoded is None:
        parts = parallel_batch.run(search, rows, values)
        decoded = beam_search.concat(parts, source.shape[1])
    return _with_steps(model, source_features, decoded, options)


def _uses_xla(model, source, options):
    """Return whether XLA compiles the search of a batch."""
    if tf.executing_eagerly():
        is_empty = source.shape.num_elements() == 0
        return not is_empty and xla_search.is_used(model, options, source.shape[1])
    # A graph may run on any device, so "auto" does not compile.
    return options.jit_compile is True and xla_search.is_used(model, options, 0)


def _search_with_xla(model, source_features, prefix, values, options):
    """Return `Decoded` of a search that XLA compiles, or None if XLA cannot."""
    (source,) = source_features.values()
    lengths = (options.per_example_length, options.decode_length)
    max_output_length = _max_output_length(source_features, *lengths)
    rows = {"inputs": source, "forced_prefix": prefix, "max_output_length": max_output_length}
    values = {name: value for name, value in values.items() if name != "decode_length"}

    def search(rows, values):
        trace_options, decode_length = options_of_trace(options), options.decode_length
        return xla_search_function(model, trace_options, decode_length, rows, values)(rows, values)

    return xla_search.run(model, search, rows, values, options)


def xla_search_function(
    model: DecodedModel,
    trace_options: Options,
    decode_length: int,
    rows: Mapping[str, tf.Tensor],
    values: Mapping[str, tf.Tensor],
) -> Callable[..., Any]:
    """Return the search as a `tf.function` that XLA compiles at its first call.

    Args:
        model: a `DecodedModel`.
        trace_options: `Options` of `options_of_trace`.
        decode_length: int.
        rows: the result of `xla_search.pad`. The shapes of the search are the shapes of these rows.
            Inside a `tf.function`, their sizes are unknown. XLA then compiles the search for each
            shape that occurs when the function runs.
        values: dict with the other inputs of the search.

    Returns:
        Function (rows, values) -> (untrimmed `Decoded`, length of its ids).
    """
    searches = model.compiled_functions.of_decoding()
    key = (
        xla_search_function,
        trace_options,
        decode_length,
        *(tuple(x.shape) for x in rows.values()),
    )
    if key not in searches:

        def run(rows, values):
            numbers = {**values, "decode_length": decode_length}
            numbers["forced_prefix"] = rows["forced_prefix"]
            features = {"inputs": rows["inputs"]}
            return _search_untrimmed(
                model, features, trace_options, numbers, rows["max_output_length"]
            )

        signature = tf.nest.map_structure(
            lambda x: tf.TensorSpec(x.shape, x.dtype), [dict(rows), dict(values)]
        )
        searches[key] = compiled.function(run, signature, jit_compile=True)
    return searches[key]


def options_of_trace(options: Options) -> Options:
    """Return the `Options` that identify a trace.

    A numeric option becomes True if the graph has an input for it, and False otherwise.
    """
    switches = {name: bool(getattr(options, name)) for name in _OMITTED_AT_ZERO}
    has_prefix = options.forced_prefix is not None
    others: dict[str, Any] = dict.fromkeys(NUMBERS, True)
    others |= {"seed": None, "return_steps": False, "jit_compile": False}
    return dataclasses.replace(options, **{**others, **switches}, forced_prefix=has_prefix)


def traced_search(
    model: DecodedModel, source_shape: Shape, trace_options: Options
) -> Callable[..., Any]:
    """Return the search as a `tf.function`, traced at its first call.

    Args:
        model: a `DecodedModel`.
        source_shape: shape of the source. Only the axes after [B, S] matter.
        trace_options: `Options` of `options_of_trace`.

    Returns:
        Function (rows, values) -> `Decoded`. `rows` is a dict with the keys "source_features" and
            "forced_prefix". `values` is a dict with the scalars of `NUMBERS` and the seed, int32
            [2].
    """
    searches = model.compiled_functions.of_decoding()
    # A trace fits only sources of the same rank and word count.
    key = (_search, trace_options, *source_shape[2:])
    if key not in searches:

        def run(rows, values):
            values = {**values, "forced_prefix": rows["forced_prefix"]}
            return _search(model, rows["source_features"], trace_options, values)

        name = "inputs" if model.encoder is not None else "prompt"
        # The last axis is the number of words in a sentence of bAbI, which is fixed.
        source = tf.TensorSpec([None, None, *source_shape[2:]], tf.int32)
        rows = {
            "source_features": {name: source},
            "forced_prefix": tf.TensorSpec([None, None], tf.int32),
        }
        values = {name: tf.TensorSpec([], dtype) for name, dtype in NUMBERS.items()}
        values["seed"] = tf.TensorSpec([2], tf.int32)
        searches[key] = compiled.function(run, [rows, values])
    return searches[key]


def fixed_search(
    model: DecodedModel,
    source_features: Mapping[str, tf.Tensor],
    options: Options,
    seed: Any = None,
    forced_prefix: tf.Tensor | None = None,
) -> beam_search.Decoded:
    """Return the outputs of a search with only static shapes, for LiteRT and XLA.

    Args:
        model: a `DecodedModel` that is not a language model.
        source_features: {"inputs": int32 [B, S] or [B, sentences, words]}, of static shape.
        options: `Options` whose numbers are Python numbers.
        seed: int32 [2]. Default: the seed of the options.
        forced_prefix: int32 [B, P]. Required if the options have a forced prefix.

    Returns:
        `Decoded`. The shape of its ids is [B, beams, S + decode_length].
    """
    (source,) = source_features.values()
    values = {name: getattr(options, name) for name in NUMBERS}
    values["seed"] = [options.seed or 0, 0] if seed is None else seed
    values["forced_prefix"] = forced_prefix
    decoded, _ = _search_untrimmed(model, source_features, options_of_trace(options), values)
    shape = [source.shape[0], options.beam_size, source.shape[1] + options.decode_length]
    return beam_search.Decoded(tf.reshape(decoded.ids, shape), decoded.scores)


def _search(model, source_features, trace_options, values):
    decoded, length = _search_untrimmed(model, source_features, trace_options, values)
    return decoded._replace(ids=decoded.ids[:, :, :length])


def _search_untrimmed(
    model: DecodedModel,
    source_features: Mapping[str, tf.Tensor],
    trace_options: Options,
    values: Mapping[str, Any],
    max_output_length: tf.Tensor | None = None,
) -> tuple[beam_search.Decoded, tf.Tensor]:
    """Return `Decoded` with ids of the maximum length, and the length of the outputs.

    Args:
        values: dict with the options of `NUMBERS`, the seed and the forced prefix. If decode_length
            is a Python int, all shapes are static.
        max_output_length: int32 [B]. Default: computed from the shape of the source.
    """
    weights = model.trainable_weights if own_layers.are_all(model) else ()
    with cast_once.scope(weights, model.compute_dtype):
        task = _task(model, source_features, trace_options, values, max_output_length)
        if trace_options.temperature:
            names = ("temperature", "top_k", "top_p", "seed")
            choose = sampling.sampler(*(values[name] for name in names))
            return beam_search.untrimmed_greedy_search(task, choose)
        if trace_options.beam_size == 1:
            return beam_search.untrimmed_greedy_search(task)
        return beam_search.untrimmed_beam_search(task, trace_options.beam_size, values["alpha"])


def _task(model, source_features, trace_options, values, max_output_length):
    """Return the `Task` of a search. The arguments are those of `_search_untrimmed`."""
    (source,) = source_features.values()
    max_length = values["decode_length"]
    if "inputs" in source_features:
        source_length = source.shape[1] if isinstance(max_length, int) else None
        max_length += source_length or tf.shape(source)[1]
    inputs = StepInputs(
        num_steps=trace_options.num_steps, exit_threshold=trace_options.exit_threshold
    )
    next_logits_function, cache = next_logits.make(
        model, source_features, trace_options.beam_size, max_length, trace_options.cache, inputs
    )
    if max_output_length is None:
        lengths = (trace_options.per_example_length, values["decode_length"])
        max_output_length = _max_output_length(source_features, *lengths)
    return beam_search.Task(
        next_logits=next_logits_function,
        cache=cache,
        batch_size=tf.shape(source)[0],
        max_length=max_length,
        max_output_length=max_output_length,
        constrain=constraints.combined(trace_options, values),
        eos_bonus=tf.maximum(-values["eos_penalty"], 0.0),
        eos_penalty=values["eos_penalty"],
    )


def _max_output_length(source_features, per_example_length, decode_length):
    """Return the maximum number of output tokens of each example, int32 [B]."""
    (source,) = source_features.values()
    batch_size, length = tf.unstack(tf.shape(source)[:2])
    if "prompt" in source_features:
        length = 0
    elif per_example_length and source.shape.rank == 2:  # the size of stories is fixed
        ends = tf.where(source != 0, tf.range(1, length + 1), 0)
        # If `source` has no columns, `reduce_max` returns the least integer. `maximum` makes it 0.
        return tf.maximum(tf.reduce_max(ends, axis=1), 0) + decode_length
    return tf.fill([batch_size], length + decode_length)


def _source_features(model: DecodedModel, features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Return {"inputs": …} or, for a language model, {"prompt": …}, as int32 tensors."""
    if model.encoder is not None:
        if "inputs" not in features:
            raise ValueError(f"features must hold 'inputs'. Received: {sorted(features)}.")
        inputs = id_checks.as_ids(features["inputs"], "inputs")
        if inputs.shape.rank < 2:
            raise ValueError(f"inputs must be [batch, length]. Received: {inputs.shape}.")
        return {"inputs": inputs}
    prompt = features.get("inputs", features.get("targets"))
    if prompt is None:
        raise ValueError(f"features must hold a prompt, 'inputs'. Received: {sorted(features)}.")
    prompt = id_checks.as_ids(prompt, "A prompt")
    if prompt.shape.rank != 2:
        raise ValueError(f"A prompt must be [batch, length]. Received: {prompt.shape}.")
    return {"prompt": prompt}


def _forced_prefix(prefix, source, vocab_size):
    """Return the forced prefix, int32 [B, P], or a column of zeros if there is none."""
    if prefix is None:
        return tf.zeros([tf.shape(source)[0], 1], tf.int32)
    prefix, batch_size = id_checks.as_ids(prefix, "forced_prefix", vocab_size), source.shape[0]
    if not prefix.shape.is_compatible_with([batch_size, None]) or prefix.shape[1:] == [0]:
        raise ValueError(f"forced_prefix must be [{batch_size}, length]. Received: {prefix.shape}.")
    return prefix
