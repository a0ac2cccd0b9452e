"""Exports a model as a `.tflite` file for LiteRT.

LiteRT needs neither TensorFlow nor ut_keras.

    export.export_litert(model, "model.tflite", source_length=32, decode_length=8)

The following list shows all signatures. A file has only the signatures that fit the kind of its
model. Each signature takes one example (B = 1):

    generate  inputs int32 [B, S]             -> outputs int32 [B, beams, T], scores [B, beams]
    classify  inputs int32 [B, S]             -> scores [B, C]: log probabilities
    encode    inputs int32 [B, S]             -> states [B, S, D], memory_0 …, cache_0 …
    step      symbol, position int32 [1],     -> logits [B, V], cache_0 …
              memory_0 …, cache_0 …

A source has EOS at its end and is padded with 0 to length S.

A caller of `step` chooses the tokens itself. The first call of `step` takes token 0, position 0,
and the memory and the cache from `encode`. Every later call takes the cache that the previous call
returned.

A language model has only `step` and `start`. `start` takes `inputs` int32 [1], whose value does not
matter, and returns the empty cache. The caller then passes the prompt to `step` token by token.

docs/on_device.md has examples.
"""

import dataclasses
import re
import tempfile
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras import process
from ut_keras.files import file_error, whole_file
from ut_keras.inference import export_arguments, fixed_shapes, float32_only, litert_check
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.ops import finite

QUANTIZATIONS = ("", "float16", "int8")


def export_litert(
    model: keras.Model,
    path: str,
    source_length: int | None = None,
    decode_length: int = 50,
    beam_size: int = 1,
    quantize: str = "",
    **options: Any,
) -> None:
    """Write a `.tflite` file.

    If the export fails, no file is written.

    Args:
        model: a model such as a `Transformer`.
        path: str, the path of the file.
        source_length: int S, EOS included. It must be None for stories, whose size is fixed, and
            for language models.
        decode_length, beam_size, options: options of the search, see `model.generate`. For a
            language model, decode_length is the total number of positions, including the prompt,
            and num_steps is the only other option, because the file contains no search.
        quantize: the format of the weights: "" for 32 bits, "float16", or "int8" with one scale per
            channel. With int8 weights, LiteRT decides whether it computes in float32 or in int8.

    Raises:
        ValueError: if an argument is invalid, or the converted model computes other outputs. Also
            if LiteRT does not support an operation of the model. The message then names the
            operation.
    """
    export_arguments.check(model, "export_litert(run.model, path, source_length)")
    if quantize not in QUANTIZATIONS:
        raise ValueError(f"quantize must be one of {QUANTIZATIONS}. Received: {quantize!r}.")
    path = file_error.checked_path(path, "path")
    file_error.check_is_file(path)
    named = {"beam_size": beam_size, "decode_length": decode_length}
    search = fixed_shapes.search_options({**named, **options}, "LiteRT")
    float32_only.check(model, "LiteRT")
    finite.check_model(model)
    shape = _source_shape(model, source_length)
    if shape is None:
        _check_no_search(search)
    if search.num_steps is not None:
        model = model.with_steps(search.num_steps)
    with fixed_shapes.tracing(model), tempfile.TemporaryDirectory() as folder:
        signatures = {
            name: tf.function(function, autograph=False).get_concrete_function(**specs)
            for name, function, specs in _functions(model, shape, search)
        }
        module = tf.Module()
        module.weights = [variable.value for variable in model.variables]
        tf.saved_model.save(module, folder, signatures)
        # Weights of fewer bits change the outputs. Therefore the checked file has 32-bit weights.
        content = _convert(folder, list(signatures), "")
        litert_check.check(
            content,
            signatures,
            _no_source if shape is None else fixed_shapes.random_sources(model, shape),
            vocab_size=model.specs["targets"].vocab_size,
            num_positions=_num_positions(shape, search),
        )
        if quantize:
            content = _convert(folder, list(signatures), quantize)
    with whole_file.writing(path, binary=True) as file:
        file.write(content)


def _no_source(generator):
    """Return inputs of the signature `start`, which ignores their values."""
    return {"inputs": np.zeros([1], np.int32)}


def _num_positions(shape, search):
    """Return the number of positions of the decoder."""
    return search.decode_length + (0 if shape is None else shape[1])


def _source_shape(model, source_length):
    """Return the shape of a source, or None without sources."""
    if model.encoder is not None:
        return fixed_shapes.source_shape(model, source_length, "LiteRT")
    if source_length is not None:
        raise ValueError(
            "source_length must be None for a language model, which reads its prompt by steps. "
            f"Received: {source_length}."
        )
    if model.why_not_cached or not hasattr(model.decoder, "start_cache"):
        raise ValueError(
            "A language model must support a decode cache to read its prompt step by step. "
            "Received: a model without a decode cache: "
            f"{model.why_not_cached or type(model).__name__}."
        )
    return None


def _check_no_search(search):
    """Check the options of a language model, whose file contains no search.

    Raises:
        ValueError: if an option has no effect, or the cache would have no position.
    """
    if search.decode_length < 1:
        raise ValueError(
            "decode_length must be at least 1 for a language model, because it includes the "
            f"prompt. Received: {search.decode_length}."
        )
    for field in dataclasses.fields(search):
        if field.name in ("decode_length", "num_steps", "per_example_length"):
            continue
        value, default = getattr(search, field.name), field.default
        if value != default:
            raise ValueError(
                f"{field.name} must be {default} for a language model, because its LiteRT file "
                f"contains no search. Received: {value}."
            )


def _functions(model, shape, search):
    """Yield (name, function with keyword arguments, argument specs) per signature."""
    source = None if shape is None else tf.TensorSpec(shape, tf.int32, name="inputs")
    if source is not None:
        name, function = fixed_shapes.whole_search(model, search)
        yield name, function, {"inputs": source}
        if name == "classify":
            return
    if not model.why_not_cached and hasattr(model.decoder, "start_cache"):
        size = cache_lib.CacheSize(1, 1, _num_positions(shape, search), model.num_steps)
        yield from _step_signatures(model, source, size)


def _step_signatures(model, source, size):
    """Yield the signatures that start a search and that decode one token.

    The memory and the cache are flat lists of tensors in these signatures.
    """

    def begin(inputs):
        if source is None:
            return (), model.decoder.start_cache(size), None
        encoded = model.encode({"inputs": inputs})
        memory = model.project_memory(encoded, {"inputs": inputs})
        return memory, model.decoder.start_cache(size), encoded.stack.output

    def encode(inputs):
        memory, cache, states = begin(inputs)
        found = {**_named("memory", memory), **_named("cache", cache)}
        return found if states is None else {"states": states, **found}

    first = tf.TensorSpec([1], tf.int32, name="inputs") if source is None else source
    memory, cache, _ = (
        tf.function(begin, autograph=False).get_concrete_function(first).structured_outputs
    )

    def step(symbol, position, **state):
        memory_parts = tf.nest.pack_sequence_as(memory, _unnamed(state, "memory")) or None
        cache_parts = tf.nest.pack_sequence_as(cache, _unnamed(state, "cache"))
        window = cache_lib.window(position, size)
        output, cache_parts = model.extend(symbol[tf.newaxis], cache_parts, window, memory_parts)
        logits = model.logits(output, model.softmax.columns())
        return {"logits": logits[:, 0], **_named("cache", cache_parts)}

    state = {**_named("memory", memory), **_named("cache", cache)}
    specs = {name: tf.TensorSpec(x.shape, x.dtype, name=name) for name, x in state.items()}
    for name in ("symbol", "position"):
        specs[name] = tf.TensorSpec([1], tf.int32, name=name)
    yield ("start" if source is None else "encode"), encode, {"inputs": first}
    yield "step", step, specs


def _named(name, nest):
    return {f"{name}_{i}": x for i, x in enumerate(tf.nest.flatten(nest))}


def _unnamed(state, name):
    """Return the list of the tensors that `_named` stored in `state` under `name`."""
    number = sum(key.startswith(f"{name}_") for key in state)
    return [state[f"{name}_{i}"] for i in range(number)]


def _convert(folder, signatures, quantize):
    converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=signatures)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantize == "float16":
        converter.target_spec.supported_types = [tf.float16]
    with process.silent_stderr():
        try:
            return converter.convert()
        except Exception as error:  # the type of the error depends on the version of the converter
            text = str(error)
            if "/sru" in text:
                raise ValueError(
                    "A decoder with Adaptive Computation Time must not use SRUs for an export to "
                    "LiteRT, because LiteRT's converter cannot process them. Received: a model "
                    "with ffn_layer=sru or add_sru=True. Export a SavedModel instead."
                ) from error
            found = re.search(r"(?:TF Select|Custom) ops: (.*)", text)
            found = found or re.search(r"'(tf\.\w+)'", text)
            what = found[1] if found else text.strip().partition("\n")[0]
            raise ValueError(
                f"LiteRT must support all operations of the model. Received: {what.strip()}."
            ) from error
