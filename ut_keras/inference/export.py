"""A model as a SavedModel that takes and gives text, and needs no Python of ours.

    export.export_saved_model(model, encoders, "served/1", beam_size=4)

Its signatures, by what there is to the model:

    serving_default  inputs string [B]               -> outputs string [B, beams], scores [B, beams]
    classify         inputs string [B]               -> classes string [B, C], scores [B, C]
    score            inputs, targets string [B]      -> scores [B]
    encode           inputs string [B]               -> ids int32 [B, S], states [B, S, D]
    ids              inputs int32 [B, S]             -> outputs int32 [B, beams, T], scores

Whoever loads it has to `import tensorflow_text`, or be a server that is linked with its operations.
docs/serving.md shows it at work.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras.files import whole_file
from ut_keras.inference import text_model
from ut_keras.ops import written_gradient
from ut_keras.text.text_encoder_base import TextEncoder

QUANTIZATIONS = ("", "float16", "int8")
_FEW = 1024  # numbers of a variable that is not worth a scale
_TRACES = ("_searches", "_scores")  # that a model keeps


@written_gradient.left_out()
def export_saved_model(
    model: keras.Model,
    encoders: Mapping[str, TextEncoder],
    directory: str,
    beam_size: int = 4,
    alpha: float = 0.6,
    decode_length: int = 50,
    max_input_length: int = 0,
    quantize: str = "",
    **options: Any,
) -> None:
    """Writes the folder, whole or not at all.

    Args:
        model: such as a `Transformer`.
        encoders: dict from feature name to `TextEncoder`, as `problem.feature_encoders` gives it.
        directory: str, a folder that is not there yet. A server wants a number for its last part.
        beam_size, alpha, decode_length, options: of the search, see `model.generate`; here own_room
            is True by default. A model of classes, and an encoder without decoder, have none.
        max_input_length: int. Sources are cut to so many ids, EOS included; 0: they are not.
        quantize: "", "float16" or "int8": the weights are stored in so many bits, in 8 with a scale
            for each channel, and computed with in 32.
    Raises:
        ValueError: if an argument or an encoder does not fit.
        FileExistsError: if the folder is there.
    """
    if quantize not in QUANTIZATIONS:
        raise ValueError(f"quantize must be one of {QUANTIZATIONS}. Received: {quantize!r}.")
    for name in {"forced_prefix", "return_steps"} & options.keys():
        raise ValueError(f"An export writes freely, and texts alone. Received: {name}.")
    if os.path.exists(directory):
        raise FileExistsError(17, "An export needs a folder that is not there yet", directory)
    texts = text_model.TextModel(model, encoders, max_input_length)
    search = {"beam_size": beam_size, "alpha": alpha, "decode_length": decode_length, **options}
    module, signatures = _module(texts, search, quantize)
    os.makedirs(os.path.dirname(directory) or ".", exist_ok=True)
    with whole_file.folder(directory) as temporary:
        written = os.path.join(temporary, "saved_model")
        tf.saved_model.save(module, written, signatures)
        whole_file.put([(written, directory)])


def _module(texts, search, quantize):
    """(`tf.Module` that holds all that the signatures use, dict of signatures)."""
    module = tf.Module()
    module.encoders = list(texts.encoder_ops.values())
    variables = texts.model.variables
    if quantize:
        module.weights = [_Rounded(variable, quantize) for variable in variables]
    else:
        module.weights = [variable.value for variable in variables]

    def traced(function, specs):
        def run(*arguments):
            values = [weight.widened() for weight in module.weights]
            with keras.StatelessScope(zip(variables, values, strict=True)):
                return function(*arguments)

        if not quantize:
            traces = tf.function(function, input_signature=specs, autograph=False)
            return traces.get_concrete_function()
        with fresh_traces(texts.model):
            signature = tf.function(run, input_signature=specs, autograph=False)
            return signature.get_concrete_function()

    with fresh_traces(texts.model):  # those that are there have our gradients in them
        signatures = {
            name: traced(function, specs) for name, function, specs in _functions(texts, search)
        }
    return module, signatures


def _functions(texts, search):
    """Yields (name, function, specs of its arguments) of every signature."""
    strings = tf.TensorSpec([None], tf.string, name="inputs")
    targets = tf.TensorSpec([None], tf.string, name="targets")

    def generate(inputs):
        outputs, scores = texts.generate(inputs, **search)
        return {"outputs": outputs, "scores": scores}

    def score(inputs, targets):
        return {"scores": texts.score(targets, inputs)}

    yield "serving_default", generate, [strings]
    yield "ids", lambda inputs: _of_ids(texts, search, inputs), [_ids_spec(texts)]
    yield "encode", lambda inputs: _encoded(texts, inputs), [strings]
    if texts.predictor.classifies:
        yield "classify", lambda inputs: _classes(texts, inputs), [strings]
    elif texts.predictor.is_language_model:
        yield "score", lambda targets: {"scores": texts.score(targets)}, [targets]
    elif texts.predictor.searches:
        yield "score", score, [strings, targets]


def _ids_spec(texts):
    feature = "targets" if texts.predictor.is_language_model else "inputs"
    spec = texts.model.specs[feature]
    return tf.TensorSpec([None, *(spec.shape or [None])], tf.int32, name="inputs")


def _of_ids(texts, search, inputs):
    feature = "targets" if texts.predictor.is_language_model else "inputs"
    size = texts.model.specs[feature].vocab_size
    checks = [
        tf.debugging.Assert(
            tf.reduce_all((inputs >= 0) & (inputs < size)),
            [f"inputs must be ids in [0, {size}). Received:", inputs],
        )
    ]
    with tf.control_dependencies(checks):
        outputs, scores = texts.generate_ids(tf.identity(inputs), **search)
    return {"outputs": outputs, "scores": scores}


def _encoded(texts, inputs):
    ids, states = texts.encode(inputs)
    return {"ids": ids} if states is None else {"ids": ids, "states": states}


def _classes(texts, inputs):
    classes, scores = texts.classify(inputs)
    return {"classes": classes, "scores": scores}


class _Rounded(tf.Module):
    """A variable with the value in fewer bits; of what is no float, with the value."""

    def __init__(self, variable, kind):
        super().__init__()
        value = tf.convert_to_tensor(variable.value)
        self.dtype, self.scale = value.dtype, None
        if value.dtype.is_floating and kind == "float16":
            value = tf.cast(value, tf.float16)
        elif value.dtype.is_floating and len(value.shape) > 1 and tf.size(value) >= _FEW:
            value, scale = _in_8_bits(value)
            self.scale = tf.Variable(scale, trainable=False)
        self.value = tf.Variable(value, trainable=False)

    def widened(self):
        """The tensor that is computed with."""
        value = tf.cast(self.value, self.dtype)
        return value if self.scale is None else value * self.scale


def _in_8_bits(value):
    """(int8 tensor, scales) with a scale for each column, or each row, whichever are smaller."""
    ways = []
    for axis in (0, -1):
        size = tf.reduce_max(tf.abs(value), axis=axis, keepdims=True)
        # By the mean of logarithms: what is small among its kind should not be lost.
        ways.append((tf.reduce_mean(tf.math.log(tf.boolean_mask(size, size > 0))), size))
    _, size = min(ways, key=lambda way: float(way[0]))
    scale = tf.where(size > 0, size / 127, 1.0)
    return tf.cast(tf.round(value / scale), tf.int8), scale


@contextlib.contextmanager
def fresh_traces(model: keras.Model) -> Iterator[None]:
    """While a signature is traced whose weights are tensors of its own graph."""
    kept = {name: model.__dict__.pop(name) for name in _TRACES if name in model.__dict__}
    try:
        yield
    finally:
        for name in _TRACES:
            model.__dict__.pop(name, None)
        model.__dict__.update(kept)
