"""A search or a forward pass of fixed shapes, for runtimes like LiteRT and ONNX.

    shape = fixed_shapes.source_shape(model, 32, "LiteRT")
    name, function = fixed_shapes.whole_search(model, search)
    with fixed_shapes.tracing(model):
        graph = tf.function(function).get_concrete_function(tf.TensorSpec(shape, tf.int32))

Such a runtime gets one example at a time. All sources have one length, and the caller pads shorter
sources.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from ut_keras.decoding import batch_plan
from ut_keras.decoding import generate as generate_lib
from ut_keras.decoding.options import Options, from_keywords
from ut_keras.hparam_schema import limits
from ut_keras.inference.predictor import Predictor
from ut_keras.ops import converted_outputs, custom_gradient, litert


def search_options(keywords: Mapping[str, Any], runtime: str) -> Options:
    """Return the checked options of a search.

    Args:
        keywords: options of `model.generate`.
        runtime: str, the name of the runtime in errors.

    Raises:
        ValueError: if an option is invalid or is not supported in a graph of fixed shapes.
    """
    search = from_keywords(dict(keywords), per_example_length=True)
    for name in ("forced_prefix", "exit_threshold", "return_steps", "jit_compile"):
        if getattr(search, name) is not getattr(Options, name):
            raise ValueError(f"{name} is not supported by {runtime} exports. Received: {name}.")
    return search


def source_shape(model: keras.Model, source_length: int | None, runtime: str) -> list[int]:
    """Return the shape of a source, [1, S] or [1, sentences, words].

    Args:
        model: a model with an encoder.
        source_length: int S, EOS included. It must be None for stories, whose size is fixed.
        runtime: str, the name of the runtime in errors.

    Raises:
        ValueError: if source_length is invalid, or padding changes the output of the model.
    """
    if model.decoder is None and not model.class_labels:
        raise ValueError(
            f"model must have a decoder or class labels for an export to {runtime}. "
            f"Received: a {type(model).__name__} without either."
        )
    is_story = model.specs["inputs"].modality == "sentences"
    reason = batch_plan.why_equal_lengths(model)
    if reason and not (is_story and not model.hparams.trim_stories):
        raise ValueError(
            f"Padding must not change the output of a model for {runtime}, because its sources "
            f"have one length. Received: a model in which padding changes the output: {reason}. "
            'Train with a setting that masks the padding: see "What padding changes" in '
            "docs/decoding.md."
        )
    if is_story:
        return [1, *model.specs["inputs"].shape]
    if source_length is None:
        raise ValueError("source_length must be given. Received: None.")
    if expected := limits.why_no_int(source_length, 1, limits.MOST_POSITIONS):
        raise ValueError(f"source_length must be {expected}. Received: {source_length!r}.")
    return [1, source_length]


def whole_search(model: keras.Model, search: Options) -> tuple[str, Callable[..., Any]]:
    """Return (name, function). The function computes the outputs for a source.

    The name is "generate", or "classify" for a model that predicts classes. The function takes
    `inputs`, a tensor of static shape, and returns a dict. The keys of the dict are "outputs" and
    "scores", or only "scores" for classes.
    """
    predictor = Predictor(model)

    def generate(inputs):
        found = generate_lib.fixed_search(model, {"inputs": inputs}, search)
        return {"outputs": found.ids, "scores": found.scores}

    def classify(inputs):
        return {"scores": predictor.log_probs(inputs)}

    return ("generate", generate) if predictor.searches else ("classify", classify)


def random_sources(
    model: keras.Model, shape: list[int]
) -> Callable[[np.random.Generator], dict[str, np.ndarray]]:
    """Return a function that makes a random source from a generator of random numbers.

    The source is a dict with the key "inputs" and random ids of the given shape.
    """
    vocab_size = model.specs["inputs"].vocab_size
    return lambda generator: {"inputs": converted_outputs.random_ids(generator, shape, vocab_size)}


@contextlib.contextmanager
def tracing(model: keras.Model) -> Iterator[None]:
    """Context in which the model is traced with operations for other runtimes."""
    with model.compiled_functions.without_decoding(), custom_gradient.disabled(), litert.tracing():
        yield
