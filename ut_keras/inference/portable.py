"""Saves a model as config.json, model.safetensors and vocabularies.

Other tools can read these files.

    ut_keras.load("runs/ende").save("ende")      writes the folder
    ut_keras.load("ende")                        reads the folder

The content of config.json:

    {"library": "ut_keras", "model": "transformer", "hparams": {…}, "num_steps": null,
     "target_space_id": 0, "features": {…, as in features.json}, "sha256": "9f86d0… of the weights",
     "config_sha256": "2c26b4… of the entries before"}

If a user changes an hparam in this file, the weights may still have the right shapes, although the
outputs are wrong. So `load` logs a warning if the entries do not match their digest.

The weights have the names of the model's variables. Loading never runs code from the folder.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras import hparam_schema, models
from ut_keras.checkpoints import checkpoint
from ut_keras.errors import DataError
from ut_keras.files import file_error, json_file, whole_file
from ut_keras.hparam_schema import limits
from ut_keras.inference import feature_record, run_json
from ut_keras.ops import finite

CONFIG, WEIGHTS = "config.json", "model.safetensors"
# The entries of config.json that decide what a model computes.
_ENTRIES = ("model", "hparams", "num_steps", "target_space_id", "features")
_LOG = logging.getLogger("ut_keras")


def exists(directory: str) -> bool:
    """Return whether `save` wrote a folder; False for the folder of a trainer's run."""
    is_run = os.path.exists(os.path.join(directory, run_json.FILENAME))
    return os.path.isfile(os.path.join(directory, CONFIG)) and not is_run


def save(
    directory: str | os.PathLike[str],
    model: keras.Model,
    encoders: Any,
    prefixes: Mapping[str, str] | None = None,
) -> None:
    """Write a model to a folder. After an error, no folder is left.

    See `SavedRun.save`.
    """
    from safetensors import numpy as safetensors

    directory = file_error.checked_path(directory, "directory")
    is_empty = os.path.isdir(directory) and not os.listdir(directory)
    if os.path.lexists(directory) and (not is_empty or os.path.islink(directory)):
        raise DataError(f"directory must be new or empty. Received: {directory!r}.")
    _check_class(model)
    finite.check_model(model)
    space = model.target_space_id
    record = feature_record.FeatureRecord(model.specs, encoders, space, prefixes or {})
    with file_error.user_error_context(directory), whole_file.writing_folder(directory) as written:
        features = feature_record.store(written, record)
        if None in (feature["encoder"] for feature in features["features"].values()):
            raise DataError(
                "Text encoders must be classes of ut_keras. Received: another class; features.json "
                "of the run has null for it."
            )
        variables = checkpoint.model_variables(model)
        weights = {name: variable.numpy() for name, variable in variables.items()}
        safetensors.save_file(weights, os.path.join(written, WEIGHTS), {"format": "ut_keras"})
        config = {
            "library": "ut_keras",
            "model": model.name,
            "hparams": model.hparams.to_dict(),
            "num_steps": model.num_steps,
            **features,
            "sha256": _digest(os.path.join(written, WEIGHTS)),
        }
        config["config_sha256"] = _config_digest(config)
        with open(os.path.join(written, CONFIG), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2, ensure_ascii=False)


def _check_class(model):
    """Check that the class of a model is registered with the name of the model."""
    registered = models.registered_class(model.name)
    # A user's subclass of Transformer may also have the name "transformer". A notebook cell that
    # runs again makes another class with the same name in the same module.
    names = {(of.__module__, of.__qualname__) for of in (registered, type(model))}
    if len(names) > 1:
        raise DataError(
            f"model must have the class that is registered as {model.name!r}, because a program "
            f"that loads the folder uses this class. Received: {type(model).__name__} of the "
            f"module {type(model).__module__}. Register it with @models.register, and pass the "
            "registered name as name=…."
        )


def missing(directory: str) -> list[str]:
    """Return the files that a folder with a config.json of ut_keras lacks."""
    config = json_file.read(os.path.join(directory, CONFIG), DataError)
    if config.get("library") != "ut_keras":
        return []
    weights = [] if os.path.isfile(os.path.join(directory, WEIGHTS)) else [WEIGHTS]
    return [*weights, *feature_record.missing(config, directory)]


def load(directory: str) -> tuple[keras.Model, dict[str, Any], Mapping[str, str]]:
    """Load a model from a folder that `save` wrote.

    Returns:
        (model, dict from feature name to `TextEncoder`, dict from feature name to its prefix).

    Raises:
        DataError: if a file is missing, is incomplete or was not written by ut_keras, or if a
            weight is not finite.
        HParamError, UnknownNameError: if the hparams or the name of the model are invalid.
    """
    path, weights = (os.path.join(directory, name) for name in (CONFIG, WEIGHTS))
    config = json_file.read(path, DataError)
    name, values = config.get("model"), config.get("hparams")
    if config.get("library") != "ut_keras" or not isinstance(values, dict):
        raise DataError(
            f"{path} must be written by ut_keras. Received: another program's config. "
            "keras.models.load_model reads a complete folder that Keras wrote."
        )
    steps = config.get("num_steps")
    if steps is not None and (expected := limits.why_no_int(steps, 1, limits.MOST_STEPS)):
        raise DataError(f"{path}: num_steps must be {expected}, or null. Received: {steps!r}.")
    features = feature_record.restore(config, path)
    if not os.path.isfile(weights):
        raise DataError(f"{directory} must contain {WEIGHTS}. Received: none.")
    if config.get("sha256") != _digest(weights):
        raise DataError(
            f"{weights} must be the complete file that belongs to {CONFIG}. Received: another "
            f"file, or a part of it ({os.path.getsize(weights):,} bytes)."
        )
    # A folder of an earlier version has no digest.
    if config.get("config_sha256") not in (None, _config_digest(config)):
        _LOG.warning(
            "%s was changed after ut_keras wrote it. If its values do not fit the weights, the "
            "outputs are wrong.",
            path,
        )
    hp = hparam_schema.from_dict(values)
    model = models.from_specs(str(name), hp, features.specs, features.target_space_id)
    _assign(checkpoint.model_variables(model), weights)
    model = model.with_steps(steps) if steps else model
    return model, features.encoders, features.prefixes


def _assign(variables, path):
    import safetensors.numpy

    try:
        weights = safetensors.numpy.load_file(path)
    except safetensors.SafetensorError as error:
        raise DataError(f"{path} must be a safetensors file. Received: {error}.") from error
    saved_shapes = {name: value.shape for name, value in weights.items()}
    expected_shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    differing = sorted(
        name
        for name in saved_shapes | expected_shapes
        if saved_shapes.get(name) != expected_shapes.get(name)
    )
    if differing:
        first = differing[0]
        raise DataError(
            f"{path} must contain the variables of its model, {first} "
            f"{expected_shapes.get(first)}. "
            f"Received: {saved_shapes.get(first)} ({len(differing)} differ)."
        )
    values = {name: tf.cast(weights[name], v.dtype) for name, v in variables.items()}
    finite.check(path, values.items())
    for name, variable in variables.items():
        variable.assign(values[name])


def _digest(path):
    with file_error.named(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _config_digest(config):
    """Return the digest of the entries of config.json that a model uses."""
    text = json.dumps({name: config.get(name) for name in _ENTRIES}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
