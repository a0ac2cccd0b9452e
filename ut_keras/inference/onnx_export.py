"""Exports a model as an ONNX file, which needs neither TensorFlow nor ut_keras.

    export.export_onnx(model, "model.onnx", source_length=32, decode_length=8)
    session = onnxruntime.InferenceSession("model.onnx")
    ids, scores = session.run(["outputs", "scores"], {"inputs": source})

The graph takes one example. A source has EOS at its end and is padded with 0 to length S:

    inputs int32 [1, S] -> outputs int32 [1, 1, T], scores [1, 1]: greedy search
    inputs int32 [1, S] -> scores [1, C]: log probabilities of the classes

docs/on_device.md has examples.
"""

import contextlib
import importlib
import logging
from typing import Any

import keras
import tensorflow as tf

from ut_keras import process
from ut_keras.files import file_error, whole_file
from ut_keras.inference import export_arguments, fixed_shapes, float32_only
from ut_keras.ops import converted_outputs, finite, onnx_file
from ut_keras.process import extras

PACKAGES = ("tf2onnx", "onnxruntime")
_OPSET = 15  # the version of ONNX's operations


def export_onnx(
    model: keras.Model,
    path: str,
    source_length: int | None = None,
    decode_length: int = 50,
    beam_size: int = 1,
    **options: Any,
) -> None:
    """Write an ONNX file.

    If the export fails, no file is written.

    Args:
        model: a model such as a `Transformer`. It must have an encoder.
        path: str, the path of the file.
        source_length: int S, EOS included. It must be None for stories, whose size is fixed.
        decode_length, beam_size, options: options of the search, see `model.generate`. Only greedy
            search is supported.

    Raises:
        ValueError: if an argument is invalid, a required package is missing, or the converted model
            computes other outputs. Also if ONNX does not support an operation of the model. The
            message then names the operation.
    """
    extras.require("An ONNX export", "onnx", *PACKAGES)
    export_arguments.check(model, "export_onnx(run.model, path, source_length)")
    path = file_error.checked_path(path, "path")
    file_error.check_is_file(path)
    named = {"beam_size": beam_size, "decode_length": decode_length}
    search = fixed_shapes.search_options({**named, **options}, "ONNX")
    for name, greedy in (("beam_size", 1), ("temperature", 0)):
        if (value := getattr(search, name)) != greedy:
            raise ValueError(f"{name} must be {greedy} for an ONNX export. Received: {value}.")
    if model.encoder is None:
        raise ValueError(
            "model must have an encoder for an ONNX export. Received: a model without an encoder."
        )
    _check_no_sru(model)
    float32_only.check(model, "ONNX")
    finite.check_model(model)
    shape = fixed_shapes.source_shape(model, source_length, "ONNX")
    if search.num_steps is not None:
        model = model.with_steps(search.num_steps)
    _, function = fixed_shapes.whole_search(model, search)
    function = tf.function(function, autograph=False)
    with fixed_shapes.tracing(model), process.silent_stderr(), _quiet_converter() as tf2onnx:
        proto, _ = tf2onnx.convert.from_function(
            function,
            [tf.TensorSpec(shape, tf.int32, name="inputs")],
            opset=_OPSET,
        )
        content = proto.SerializeToString()
        random_inputs = fixed_shapes.random_sources(model, shape)
        converted_outputs.check("ONNX", function, onnx_file.runner(content), random_inputs)
    with whole_file.writing(path, binary=True) as file:
        file.write(content)


def _check_no_sru(model):
    """Raise `ValueError` if a model with a decoder has SRUs.

    The ONNX graph of such a model cannot run.
    """
    values = vars(model.hparams)
    for name, value in (("ffn_layer", "sru"), ("add_sru", True)):
        if model.decoder is not None and values.get(name) == value:
            raise ValueError(
                "A model with a decoder must not use SRUs for an ONNX export. "
                f"Received: {name}={value}. Export a SavedModel instead."
            )


@contextlib.contextmanager
def _quiet_converter():
    """Context that returns tf2onnx without its log lines.

    TensorFlow's log is silent too. During the conversion, TensorFlow warns about every lookup table
    that the process has created, such as the table of a vocabulary.
    """
    tf2onnx = importlib.import_module("tf2onnx")
    logs = [logging.getLogger(name) for name in ("tf2onnx", "tensorflow")]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield tf2onnx
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)
