"""Reads and writes `features.json`: a model's features and their text encoders.

{
  "target_space_id": 0,
  "features": {
    "inputs": {"vocab_size": 8179, "modality": "symbol", "shape": [],
               "encoder": {"class": "SubwordTextEncoder", "filename": "vocab.inputs.subwords",
                           "sha256": "9f86d0…"}},
    "targets": …
  }
}

The vocabularies are in the same folder, in T2T's format, so a run can be used without its problem
and data. "sha256" is the digest of the vocabulary's entries in their order. Runs of older versions
have no "sha256". If data generation adds a prefix to each text of a feature, the feature also has
the entry "text_prefix".
"""

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from ut_keras.data import features as features_lib
from ut_keras.data.features import FeatureSpec
from ut_keras.errors import DataError
from ut_keras.files import file_error, json_file
from ut_keras.hparam_schema import limits
from ut_keras.text import text_encoder, text_encoder_base

FILENAME = "features.json"
_FILE_ENDINGS = {
    text_encoder.SubwordTextEncoder: "subwords",
    text_encoder.TokenTextEncoder: "tokens",
}
# The file names of the vocabularies that `save` writes.
VOCABULARIES = tuple(
    f"vocab.{name}.{ending}" for name in ("inputs", "targets") for ending in _FILE_ENDINGS.values()
)

_CLASSES = (
    *_FILE_ENDINGS,
    text_encoder.ByteTextEncoder,
    text_encoder.IntegerTextEncoder,
    text_encoder.ClassLabelEncoder,
)


class FeatureRecord(NamedTuple):
    """The part of a problem that a run stores."""

    specs: dict  # feature name -> `FeatureSpec`
    encoders: dict  # feature name -> `TextEncoder`, or None if the encoder cannot be stored
    target_space_id: int = 0  # T2T's id of the kind of target text
    # Feature name -> the prefix that data generation adds to each text; other features have none.
    prefixes: Mapping[str, str] = {}


def from_problem(problem: Any, data_dir: str | None) -> FeatureRecord:
    """Return the `FeatureRecord` of a `Problem` whose vocabulary is in `data_dir`."""
    data_dir = file_error.optional_path(data_dir, "data_dir")
    specs, encoders = problem.feature_specs(data_dir), problem.feature_encoders(data_dir)
    encoders = {name: encoders.get(name) for name in specs}
    prefixes = {name: prefix for name in specs if (prefix := problem.text_prefix(name))}
    return FeatureRecord(specs, encoders, problem.target_space_id, prefixes)


def save(directory: str, record: FeatureRecord) -> None:
    """Write `features.json` and the vocabularies to the folder of a run."""
    content = json.dumps(store(directory, record), indent=2, ensure_ascii=False)
    text_encoder_base.write_lines(os.path.join(directory, FILENAME), [content])


def store(directory: str, record: FeatureRecord) -> dict[str, Any]:
    """Write only the vocabularies, and return the content for `features.json`."""
    stored, features = {}, {}
    for name, spec in record.specs.items():
        encoder = record.encoders[name]
        if id(encoder) not in stored:
            stored[id(encoder)] = _store(directory, name, encoder)
        features[name] = {
            "vocab_size": spec.vocab_size,
            "modality": spec.modality,
            "shape": list(spec.shape),
            "encoder": stored[id(encoder)],
        }
        if name in record.prefixes:
            features[name]["text_prefix"] = record.prefixes[name]
    return {"target_space_id": record.target_space_id, "features": features}


def load(directory: str) -> FeatureRecord | None:
    """Return the `FeatureRecord` of a folder, or None if it has no `features.json`.

    Raises:
        DataError: if the content is invalid, a vocabulary is missing, or a vocabulary does not have
            the stored digest. The message names the file.
    """
    path = os.path.join(directory, FILENAME)
    return restore(json_file.read(path, DataError), path) if os.path.exists(path) else None


def restore(values: Mapping[str, Any], path: str) -> FeatureRecord:
    """Return the `FeatureRecord` that the return value of `store` describes.

    Args:
        values: dict from `store`.
        path: str, the file that holds `values`. The vocabularies are in its folder.

    Raises:
        DataError: in the same cases as `load`.
    """
    described, directory = _parse(values, path), os.path.dirname(path)
    for name in missing(values, directory):
        raise DataError(
            f"{directory} must contain {name}, as {os.path.basename(path)} says. Received: none."
        )
    # Two features may share an encoder, which is created only once.
    restored = functools.cache(lambda text: _restore(directory, json.loads(text)))
    encoders = {name: restored(json.dumps(saved)) for name, saved in described.encoders.items()}
    return described._replace(encoders=encoders)


def missing(values: Mapping[str, Any], directory: str) -> list[str]:
    """Return the names of the vocabularies that a folder lacks.

    Args:
        values: dict from `store`.
        directory: str.
    """
    features = values.get("features")
    described = features.values() if isinstance(features, Mapping) else ()
    encoders = [feature.get("encoder") for feature in described if isinstance(feature, Mapping)]
    names = [saved.get("filename") for saved in encoders if isinstance(saved, Mapping)]
    known = [name for name in VOCABULARIES if name in names]
    return [name for name in known if not os.path.isfile(os.path.join(directory, name))]


def check_same_features(directory: str, record: FeatureRecord) -> None:
    """Check that a problem has the same encoders and target space as a run.

    Args:
        directory: str. If it has no `features.json`, nothing is checked.
        record: `FeatureRecord` of the problem.

    Raises:
        DataError: if the target space differs. Also if an encoder differs from the run's encoder in
            its class, in the entries of its vocabulary, or in the order of the entries. Without
            inputs, a model does not read the target space, so it is not checked.
    """
    described = _read(directory)
    reads_space = described is not None and "inputs" in described.specs
    if reads_space and described.target_space_id != record.target_space_id:
        raise DataError(
            f"target_space_id of the problem must be {described.target_space_id}, as in the run in "
            f"{directory}. Received: {record.target_space_id}."
        )
    for name, saved in (described.encoders if described else {}).items():
        current = _describe(record.encoders.get(name))
        if saved is None or current is None:
            continue
        if "filename" in saved and "sha256" not in saved:
            saved = _describe(_restore(directory, saved))
        saved = {key: value for key, value in saved.items() if key != "filename"}
        differing = [key for key in saved | current if saved.get(key) != current.get(key)]
        if differing:
            what = "vocabulary" if differing == ["sha256"] else f"encoder's {differing[0]}"
            raise DataError(
                f"The {what} of {name!r} must match the run in {directory}: "
                f"{_short(saved.get(differing[0]))}. "
                f"Received: {_short(current.get(differing[0]))}. Use the data of the "
                "training. To decode a file or to export, omit --data_dir. The folder of a run "
                "contains its vocabulary."
            )


def description(record: FeatureRecord) -> dict[str, str]:
    """Return a short description of each feature.

    Two records have equal descriptions if they give the same ids.
    """
    texts = {}
    for name, spec in record.specs.items():
        values = _describe(record.encoders.get(name)) or {}
        digest = hashlib.sha256(json.dumps(values).encode()).hexdigest()
        texts[name] = f"{spec.modality}, {spec.vocab_size} ids, sha256 {digest[:16]}"
    return texts


def filenames(directory: str) -> list[str]:
    """Return the names of the files that `save` wrote, or [] if there are none."""
    described = _read(directory)
    if described is None:
        return []
    encoders = filter(None, described.encoders.values())
    return [FILENAME, *sorted({saved["filename"] for saved in encoders if "filename" in saved})]


def _read(directory):
    """Return the parsed `features.json` of a folder, or None if it does not exist."""
    path = os.path.join(directory, FILENAME)
    return _parse(json_file.read(path, DataError), path) if os.path.exists(path) else None


def _parse(content, path):
    """Return a `FeatureRecord` that has the dicts of `_describe` in place of encoders."""
    try:
        features = dict(content["features"])
        specs = {
            name: FeatureSpec(feature["vocab_size"], feature["modality"], tuple(feature["shape"]))
            for name, feature in features.items()
        }
        features_lib.check(specs)
        encoders = {name: feature["encoder"] for name, feature in features.items()}
        for values in filter(None, encoders.values()):
            _class(values)
            if values.get("filename", VOCABULARIES[0]) not in VOCABULARIES:
                raise ValueError(f"the vocabulary {values['filename']!r}")
        space = content["target_space_id"]
        if expected := limits.why_no_int(space):
            raise DataError(f"target_space_id must be {expected}. Received: {space!r}.")
        prefixes = {
            name: str(feature["text_prefix"])
            for name, feature in features.items()
            if "text_prefix" in feature
        }
        return FeatureRecord(specs, encoders, space, prefixes)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        reason = error if isinstance(error, DataError) else f"{type(error).__name__} {error}."
        raise DataError(f"{path} must be as ut-trainer writes it. Received: {reason}") from error


def _store(directory, feature, encoder):
    """Write an encoder's vocabulary and return its description.

    The result is None if the encoder cannot be stored.
    """
    values = _describe(encoder)
    if values and type(encoder) in _FILE_ENDINGS:
        values["filename"] = f"vocab.{feature}.{_FILE_ENDINGS[type(encoder)]}"
        encoder.store_to_file(os.path.join(directory, values["filename"]))
    return values


def _describe(encoder):
    """Return the description of an encoder without its filename.

    The result is None if the encoder cannot be stored.
    """
    kind = type(encoder)
    if kind not in _CLASSES:
        return None
    values: dict[str, Any] = {"class": kind.__name__}
    if kind in _FILE_ENDINGS:
        values["sha256"] = _digest(encoder)
    if kind is text_encoder.TokenTextEncoder and encoder.oov_id is not None:
        values["replace_oov"] = encoder.decode([encoder.oov_id])
    elif kind is text_encoder.IntegerTextEncoder:
        values["vocab_size"] = encoder.vocab_size
    elif kind is text_encoder.ClassLabelEncoder:
        values["labels"] = list(encoder.entries)
    return values


def _digest(encoder):
    entries = "\n".join(encoder.entries).encode("utf-8", "surrogatepass")
    return hashlib.sha256(entries).hexdigest()


def _restore(directory, values):
    if values is None:
        return None
    arguments = {name: value for name, value in values.items() if name not in ("class", "sha256")}
    if "filename" in arguments:
        arguments["filename"] = os.path.join(directory, arguments["filename"])
    try:
        encoder = _class(values)(**arguments)
    except (TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        path = os.path.join(directory, FILENAME)
        raise DataError(f"{path} must be as ut-trainer writes it. Received: {error}") from error
    if "sha256" in values and values["sha256"] != _digest(encoder):
        raise DataError(
            f"{arguments['filename']} must be the vocabulary of the trained run, "
            f"{_short(values['sha256'])}. Received: {_short(_digest(encoder))}."
        )
    return encoder


def _class(values):
    kinds = {kind.__name__: kind for kind in _CLASSES}
    if values["class"] not in kinds:
        raise ValueError(f"unknown encoder {values['class']!r}")
    return kinds[values["class"]]


def _short(value):
    """Return a value for a message, with a shortened digest."""
    if isinstance(value, str) and len(value) == 64:
        return f"sha256 {value[:8]}…"
    return "none" if value is None else repr(value)
