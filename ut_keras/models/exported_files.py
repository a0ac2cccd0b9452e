"""Exports the forward pass of a model to a file, and checks its outputs.

signature = exported_files.named_signature(model, model.input_signature(batch_size=1, inputs=9))
exported_files.write(model, "m.onnx", "onnx", signature, super().export)
"""

import contextlib
import importlib.util
import logging
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras.data.features import FeatureSpec
from ut_keras.files import file_error, whole_file
from ut_keras.ops import (
    converted_outputs,
    custom_gradient,
    litert,
    litert_file,
    onnx_file,
    saved_model,
)
from ut_keras.process import extras

_LOG = logging.getLogger("ut_keras")
RUNTIMES = {"litert": "LiteRT", "onnx": "ONNX"}


def named_signature(model: Any, signature: Any) -> list[dict[str, Any]]:
    """Return a signature in which every spec has a name.

    Args:
        model: a model with `input_features`.
        signature: a dict from feature name to spec, or a list with this dict. A spec is a
            `keras.InputSpec`, a `tf.TensorSpec` or a tensor. A spec without a name gets the name of
            its feature.

    Raises:
        ValueError: if the signature has another form, or lacks a feature that the model reads.
    """
    specs = signature[0] if isinstance(signature, list | tuple) and len(signature) == 1 else None
    specs = signature if isinstance(signature, Mapping) else specs
    if not isinstance(specs, Mapping) or set(model.input_features) - set(specs):
        raise ValueError(
            "input_signature must be a list with one dict from feature name to spec, for the "
            f"features {', '.join(model.input_features)}. Received: {signature!r}. Use "
            "model.input_signature(…)."
        )
    return [{feature: _named(spec, feature) for feature, spec in specs.items()}]


def _named(spec, name):
    if getattr(spec, "name", None):
        return spec
    return keras.InputSpec(
        shape=spec.shape, dtype=keras.backend.standardize_dtype(spec.dtype), name=name
    )


def write(
    model: Any,
    path: str,
    format: str,
    signature: list[dict[str, Any]],
    export: Callable[..., None],
    verbose: bool | None = None,
    **options: Any,
) -> None:
    """Write a file for LiteRT or ONNX.

    If the export fails, an older file at `path` remains.

    Args:
        model: a `KerasModel`.
        path: str, the path of the file.
        format: "litert" or "onnx".
        signature: list with a dict from feature name to spec, from `named_signature`.
        export: the method `keras.Model.export` of the model.
        verbose: bool or None. Unless it is False, the function prints the path.
        options: options of the converter. They may change the outputs, so the function does not
            compare the outputs of a LiteRT file with options.

    Raises:
        ValueError: if the runtime cannot run the file, or computes other outputs than the model. If
            onnxruntime is not installed, the function does not check an ONNX file. It also does not
            check a LiteRT file with operations of TensorFlow (Flex), but logs a warning.
    """
    if format == "onnx":
        extras.require("An ONNX export", "onnx", "tf2onnx")
    file_error.check_is_file(path)
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, os.path.basename(path))
        with litert.tracing(), custom_gradient.disabled():
            export(written, format=format, input_signature=signature, verbose=False, **options)
        _check_outputs(model, written, format, signature[0], bool(options))
        whole_file.copy(written, path)
    if verbose is not False:
        print(f"Saved artifact at '{path}'.")


def write_saved_model(
    path: str,
    signature: list[dict[str, Any]],
    export: Callable[..., None],
    verbose: bool | None = None,
    **options: Any,
) -> None:
    """Write a SavedModel, and check that it calls no Python functions.

    If the export fails, an older SavedModel at `path` remains.

    Args:
        path, signature, export, verbose: as in `write`, but `path` is a folder.
        options: options of `keras.Model.export`.

    Raises:
        ValueError: if the SavedModel calls Python functions, or `path` is a file.
    """
    path = path.rstrip("/") or path  # some clouds distinguish // from /
    if os.path.exists(path) and not os.path.isdir(path):
        raise ValueError(f"filepath must be a folder. Received: {path}, which is a file.")
    # When a process loads a SavedModel with custom gradients, it leaks memory.
    with _writing_folder(path) as folder, custom_gradient.disabled():
        export(folder, format="tf_saved_model", input_signature=signature, verbose=False, **options)
        saved_model.check(folder)
    if verbose is not False:
        print(f"Saved artifact at '{path}'.")


@contextlib.contextmanager
def _writing_folder(path):
    """Context that yields a temporary folder, and moves its files to `path`.

    After an exception, the context does not change `path`. Other files in `path` remain.
    """
    is_remote = "://" in path  # TensorFlow can write to a cloud
    if not (is_remote or os.path.islink(path) or (os.path.isdir(path) and os.listdir(path))):
        with whole_file.writing_folder(path) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory() as folder:
        yield folder
        # The folder itself is last, because its file `saved_model.pb` requires the other files.
        for parent, _, names in sorted(os.walk(folder), reverse=True):
            target = path + parent.removeprefix(folder)
            tf.io.gfile.makedirs(target)
            for name in sorted(names):
                whole = os.path.join(target, name)
                tf.io.gfile.copy(os.path.join(parent, name), f"{whole}.incomplete", overwrite=True)
                tf.io.gfile.rename(f"{whole}.incomplete", whole, overwrite=True)


def _check_outputs(model, path, format, specs, has_options):
    """Raise `ValueError` if the file cannot run, or computes other outputs."""
    inputs = _random_inputs(model, specs)
    if format == "onnx":
        if not importlib.util.find_spec("onnxruntime"):
            return
        run = onnx_file.runner(path)
    else:
        if has_options:
            return
        with open(path, "rb") as file:
            run = litert_file.runner(file.read())

    def function(**features):
        return _named_outputs(model(features, training=False))

    def run_file(features):
        found = run({specs[name].name: value for name, value in features.items()})
        return _named_outputs([found[name] for name in sorted(found, key=_order)])

    try:
        converted_outputs.check(RUNTIMES[format], function, run_file, inputs)
    except litert_file.NeedsTensorFlowError:
        _LOG.warning(
            "The outputs of the LiteRT file were not compared with the model. The file contains "
            "operations of TensorFlow (Flex), which a program on the device must link. Fixed "
            "shapes and float32 avoid most of these operations.",
        )
    except ValueError as error:
        if all(None not in spec.shape for spec in specs.values()):
            raise
        raise ValueError(
            f"{error} Pass fixed shapes: model.input_signature(batch_size=1, …)."
        ) from error


def _named_outputs(outputs):
    """Return the outputs of a call, in the order of their names, as a dict.

    The files have the outputs of a dict in the order of their keys. For a tuple or list, their
    names are output_0, output_1, … in LiteRT, and Identity:0, Identity_1:0, … in ONNX.

    Args:
        outputs: a tensor, or a dict, list or tuple of tensors.
    """
    if isinstance(outputs, Mapping):
        outputs = [outputs[name] for name in sorted(outputs)]
    elif not isinstance(outputs, list | tuple):
        return {"logits": outputs}
    if len(outputs) == 1:
        return {"logits": outputs[0]}
    return {f"output {i}": value for i, value in enumerate(outputs)}


def _order(name):
    """Return a key for sorting: "output_10" comes after "output_9"."""
    found = re.fullmatch(r"(?:output|Identity)_?(\d*)(?::0)?", name)
    return (int(found[1] or 0), "") if found else (0, name)


def check_outputs_of_call(model: Any, specs: Mapping[str, Any]) -> None:
    """Check that the outputs of a user's `call` are not nested.

    The function traces the call without values, because only the caller knows which values the
    call accepts.

    Args:
        model: a `KerasModel`.
        specs: dict from feature name to spec, from `named_signature`.

    Raises:
        ValueError: if the outputs are neither a tensor nor a dict, list or tuple of tensors.
    """
    traced = []

    @tf.function
    def trace(features):
        traced.append(model(features, training=False))

    trace.get_concrete_function(
        {name: tf.TensorSpec(spec.shape, spec.dtype) for name, spec in specs.items()}
    )
    outputs = traced[-1]
    is_mapping = isinstance(outputs, Mapping)
    is_sequence = isinstance(outputs, list | tuple)
    parts = outputs.values() if is_mapping else outputs if is_sequence else [outputs]
    for one in parts:
        if not tf.is_tensor(one):
            raise ValueError(
                f"call of {type(model).__name__} must return a tensor, or a dict, list or tuple of "
                f"tensors, for an export. Received: a {type(outputs).__name__} that contains a "
                f"{type(one).__name__}."
            )


def _random_inputs(model, specs):
    """Return a function from a generator of random numbers to random features.

    An axis without a fixed size gets an arbitrary size. All features have the same batch size, but
    different lengths.
    """

    def random_inputs(generator):
        features = {}
        for i, (name, spec) in enumerate(specs.items()):
            free = [3, 5 + i, 4, 4]
            shape = [size or other for size, other in zip(spec.shape, free, strict=False)]
            kind = model.specs.get(name, FeatureSpec(1))
            if kind.modality == "class_label":
                ids = generator.integers(0, kind.vocab_size, shape)
            else:
                ids = converted_outputs.random_ids(generator, shape, kind.vocab_size)
            features[name] = ids.astype(keras.backend.standardize_dtype(spec.dtype))
        return features

    return random_inputs
