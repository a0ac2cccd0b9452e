"""Exports a model as a SavedModel from text to text, which runs without ut_keras.

    export.export_saved_model(model, encoders, "served/1", beam_size=4)

The following list shows all signatures. A SavedModel has only the signatures that fit the kind of
its model:

    serving_default  inputs string [B]               -> outputs string [B, beams], scores [B, beams]
    classify         inputs string [B]               -> classes string [B, C], scores [B, C]
    score            inputs, targets string [B]      -> scores [B]
    encode           inputs string [B]               -> ids int32 [B, S], states [B, S, D]
    ids              inputs int32 [B, S]             -> outputs int32 [B, beams, T], scores

If the model ponders and `return_steps` is True, `ids` also returns source_steps float32 [B, S] and
target_steps [B, beams, T].

A program that loads the SavedModel must `import tensorflow_text`; a server must be linked with the
operations of TensorFlow Text. docs/serving.md has examples.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras.decoding import batch_plan, xla_search
from ut_keras.decoding import score as score_lib
from ut_keras.decoding.options import from_keywords
from ut_keras.files import file_error, whole_file
from ut_keras.inference import export_arguments, text_model
from ut_keras.inference.predictor import Predictor
from ut_keras.ops import custom_gradient, finite, private_api, saved_model, xla_errors
from ut_keras.text.text_encoder_base import TextEncoder


# When a process loads a SavedModel with custom gradients, it leaks memory. See `custom_gradient`.
@custom_gradient.disabled()
def export_saved_model(
    model: keras.Model,
    encoders: Mapping[str, TextEncoder],
    directory: str = "",
    beam_size: int = 4,
    alpha: float = 0.6,
    decode_length: int = 50,
    max_input_length: int = 0,
    **options: Any,
) -> None:
    """Write a SavedModel.

    If the export fails, no folder is left.

    Args:
        model: a model such as a `Transformer`.
        encoders: dict from feature name to `TextEncoder`, as `problem.feature_encoders` returns it.
        directory: str, a folder that must not exist. Required. Servers expect a number as the last
            part of the path. The default "" exists only for the wrong call
            `export_saved_model(run, directory)`. Its error shows the correct call.
        beam_size, alpha, decode_length, options: options of the search, see `model.generate`. Here
            per_example_length is True by default, and jit_compile is False. Only the signature
            `ids` uses return_steps. Classifiers and encoders without a decoder use only num_steps
            and exit_threshold.
        max_input_length: int. Sources are truncated to this number of ids, EOS included. 0: no
            limit. It must be 0 if the inputs have the modality `sentences`, because their
            size is fixed.

    Raises:
        ValueError: if an argument is invalid, an encoder does not fit the model, a weight is not
            finite, the model calls Python functions, or jit_compile is True and XLA cannot compile
            the search.
        FileExistsError: if the folder exists.
    """
    export_arguments.check(
        model, "export_saved_model(run.model, run.encoders, directory)", encoders
    )
    if "forced_prefix" in options:
        raise ValueError("forced_prefix is not supported by exports. Received: forced_prefix.")
    named = {"beam_size": beam_size, "alpha": alpha, "decode_length": decode_length}
    search = from_keywords({**named, **options}, per_example_length=True, jit_compile=False)
    directory = file_error.checked_path(directory, "directory")
    if os.path.exists(directory):
        raise FileExistsError(17, "The folder of an export must not exist", directory)
    finite.check_model(model)
    _check_compiled(model, search)
    texts = text_model.TextModel(model, encoders, max_input_length)
    module, signatures = _module(texts, search)
    if search.jit_compile is True:
        _compile_once(signatures["ids"])
    with whole_file.writing_folder(directory) as folder:
        saved_model.save(module, folder, signatures)


def _check_compiled(model, search):
    """Raise `ValueError` if XLA must compile the search and cannot."""
    if search.jit_compile is not True:
        return
    if not Predictor(model).searches:
        raise ValueError("jit_compile must be False for a model without a search. Received: True.")
    xla_search.is_used(model, search, 0)


def _module(texts, search):
    """Return (`tf.Module` with the objects of the signatures, dict of signatures)."""
    module = tf.Module()
    module.encoders = list(texts.encoder_ops.values())
    module.weights = [variable.value for variable in texts.model.variables]
    with texts.model.compiled_functions.without_decoding():
        signatures = {
            name: tf.function(
                function, input_signature=specs, autograph=False
            ).get_concrete_function()
            for name, function, specs in _functions(texts, search)
        }
    # A layer may make its tables in its first call.
    module.tables = saved_model.tables(private_api.flatten_layers(texts.model))
    return module, signatures


def _compile_once(generate):
    """Run the signature `ids` with one id, before the export is written."""
    ((spec,), _) = generate.structured_input_signature
    ids = tf.ones([size or 1 for size in spec.shape], spec.dtype)
    try:
        generate(inputs=ids)
    except xla_errors.NOT_COMPILED as error:
        reason = xla_errors.why_not_compiled(error)
        raise ValueError(f"XLA cannot compile the search: {reason}") from error


def _functions(texts, search):
    """Yield (name, function, specs of the function's arguments) for every signature."""
    depth, returns_steps = search.depth, search.return_steps and texts.predictor.searches
    # Only the signature `ids` returns the steps.
    search = dataclasses.replace(search, return_steps=False)
    feature = "targets" if texts.predictor.is_language_model else "inputs"
    shape = texts.model.specs[feature].shape or [None]
    ids = tf.TensorSpec([None, *shape], tf.int32, name="inputs")
    strings = tf.TensorSpec([None], tf.string, name="inputs")
    targets = tf.TensorSpec([None], tf.string, name="targets")

    def generate(inputs):
        outputs, scores = texts.generate(_checked_shape("inputs", inputs), search)
        return {"outputs": outputs, "scores": scores}

    def encode(inputs):
        ids, states = texts.encode(_checked_shape("inputs", inputs), **depth)
        return {"ids": ids} if states is None else {"ids": ids, "states": states}

    def classify(inputs):
        classes, scores = texts.classify(_checked_shape("inputs", inputs), **depth)
        return {"classes": classes, "scores": scores}

    def score(inputs, targets):
        inputs, targets = _checked_shape("inputs", inputs), _checked_shape("targets", targets)
        return {"scores": texts.score(targets, inputs, **depth)}

    def score_targets(targets):
        return {"scores": texts.score(_checked_shape("targets", targets), **depth)}

    yield "serving_default", generate, [strings]
    yield (
        "ids",
        lambda inputs: _generate_from_ids(texts, search, inputs, feature, returns_steps),
        [ids],
    )
    yield "encode", encode, [strings]
    if texts.predictor.classifies:
        yield "classify", classify, [strings]
    elif texts.predictor.is_language_model:
        yield "score", score_targets, [targets]
    elif texts.predictor.scores_targets:
        yield "score", score, [strings, targets]


def _generate_from_ids(texts, search, inputs, feature, returns_steps):
    size = texts.model.specs[feature].vocab_size
    most, is_flat = texts.max_input_length, inputs.shape.rank == 2  # the size of stories is fixed
    inputs = _checked_shape("inputs", inputs)
    checks = [(tf.reduce_all((inputs >= 0) & (inputs < size)), f"ids in [0, {size})", inputs)]
    if most and is_flat:
        checks.append((tf.shape(inputs)[1] <= most, f"at most {most} ids", inputs))
    reason = batch_plan.why_equal_lengths(texts.model)
    if reason and is_flat and search.per_example_length:
        expected = f"of one length, without padding (0): {reason}"
        checks.append((tf.reduce_all(inputs != 0), expected, inputs))
    asserted = [
        tf.debugging.Assert(is_right, [f"inputs must be {expected}. Received:", received])
        for is_right, expected, received in checks
    ]
    with tf.control_dependencies(asserted):
        inputs = tf.identity(inputs)
        decoded = texts.generate_ids(inputs, search)
    results = {"outputs": decoded.ids, "scores": decoded.scores}
    if returns_steps:
        source_features = {"prompt" if feature == "targets" else "inputs": inputs}
        steps = score_lib.steps(texts.model, source_features, decoded.ids, search)
        named_steps = zip(("source_steps", "target_steps"), steps, strict=True)
        results.update((name, values) for name, values in named_steps if values is not None)
    return results


def _checked_shape(name, values):
    """Return the input of a signature, and check its shape at run time.

    A loaded SavedModel accepts inputs of every shape. For example, the tokenizer of a subword
    vocabulary would read texts [B, 1] like texts [B].
    """
    # This operation hides the static shape. Therefore TensorFlow compares the shape when the
    # signature runs.
    shape = tf.shape(tf.raw_ops.PlaceholderWithDefault(input=values, shape=None))
    sizes, rank = values.shape.as_list(), values.shape.rank
    letters = ["batch", *("length" if size is None else str(size) for size in sizes[1:])]
    expected = f"{name} must be of shape [{', '.join(letters)}]. Received:"
    is_right = tf.size(shape) == rank
    for axis, size in enumerate(sizes):
        if size is not None:
            is_right &= tf.reduce_all(shape[axis : axis + 1] == size)
    with tf.control_dependencies([tf.debugging.Assert(is_right, [expected, shape], summarize=8)]):
        return tf.ensure_shape(tf.identity(values), values.shape)
