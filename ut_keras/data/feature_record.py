"""`features.json`: what the features of a run's model are, and how they become text.

{
  "target_space_id": 0,
  "features": {
    "inputs": {"vocab_size": 8179, "modality": "symbol", "shape": [],
               "encoder": {"class": "SubwordTextEncoder", "filename": "vocab.inputs.subwords"}},
    "targets": …
  }
}

The vocabularies lie beside it, in T2T's format: a folder with this file can be used without the
problem and its data.
"""

import json
import os
from typing import NamedTuple

from ut_keras.data import text_encoder, text_encoder_base
from ut_keras.data.features import FeatureSpec
from ut_keras.data.tfrecords import DataError

FILENAME = "features.json"
_FILE_ENDINGS = {
    text_encoder.SubwordTextEncoder: "subwords",
    text_encoder.TokenTextEncoder: "tokens",
}

_CLASSES = (
    *_FILE_ENDINGS,
    text_encoder.ByteTextEncoder,
    text_encoder.IntegerTextEncoder,
    text_encoder.ClassLabelEncoder,
)


class FeatureRecord(NamedTuple):
    """What a run knows of its problem.

    Fields:
        specs: dict from feature name to `FeatureSpec`.
        encoders: dict from feature name to `TextEncoder`, or None for one that cannot be stored.
        target_space_id: int. T2T's id of the kind of target.
    """

    specs: dict
    encoders: dict
    target_space_id: int = 0


def of_problem(problem, data_dir):
    """The `FeatureRecord` of a `Problem` with its vocabulary in data_dir."""
    specs, encoders = problem.feature_specs(data_dir), problem.feature_encoders(data_dir)
    encoders = {name: encoders.get(name) for name in specs}
    return FeatureRecord(specs, encoders, problem.target_space_id)


def save(directory, record):
    """Writes `features.json` and the vocabularies.

    Args:
        directory: str, the folder of a run.
        record: `FeatureRecord`.
    """
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
    content = {"target_space_id": record.target_space_id, "features": features}
    text_encoder_base.write_lines(
        os.path.join(directory, FILENAME), [json.dumps(content, indent=2, ensure_ascii=False)]
    )


def load(directory):
    """Reads what `save` wrote.

    Returns:
        `FeatureRecord`, or None if the folder has none.
    Raises:
        DataError: if it is torn, or a vocabulary is missing.
    """
    path = os.path.join(directory, FILENAME)
    content = _read(path)
    if content is None:
        return None
    try:
        specs, encoders, made = {}, {}, {}
        for name, feature in content["features"].items():
            specs[name] = FeatureSpec(
                feature["vocab_size"], feature["modality"], tuple(feature["shape"])
            )
            key = json.dumps(feature["encoder"])
            if key not in made:
                made[key] = _restore(directory, feature["encoder"])
            encoders[name] = made[key]
        return FeatureRecord(specs, encoders, content["target_space_id"])
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} must be as ut-trainer writes it. Received: {type(error).__name__} {error}."
        ) from error


def filenames(directory):
    """The names of the files that `save` wrote, or []."""
    content = _read(os.path.join(directory, FILENAME))
    if content is None:
        return []
    encoders = [feature["encoder"] or {} for feature in content["features"].values()]
    return [FILENAME, *sorted({e["filename"] for e in encoders if "filename" in e})]


def _read(path):
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except ValueError as error:
        raise DataError(f"{path} must hold a JSON object. Received: {error}.") from error


def _store(directory, feature, encoder):
    """What says how to make the encoder; None where nothing does."""
    kind = type(encoder)
    if kind not in _CLASSES:
        return None
    values = {"class": kind.__name__}
    if kind in _FILE_ENDINGS:
        values["filename"] = f"vocab.{feature}.{_FILE_ENDINGS[kind]}"
        encoder.store_to_file(os.path.join(directory, values["filename"]))
    if kind is text_encoder.TokenTextEncoder and encoder.oov_id is not None:
        values["replace_oov"] = encoder.decode([encoder.oov_id])
    elif kind is text_encoder.IntegerTextEncoder:
        values["vocab_size"] = encoder.vocab_size
    elif kind is text_encoder.ClassLabelEncoder:
        values["labels"] = [encoder.decode([i]) for i in range(encoder.vocab_size)]
    return values


def _restore(directory, values):
    if values is None:
        return None
    arguments = dict(values)
    kind = {kind.__name__: kind for kind in _CLASSES}[arguments.pop("class")]
    if "filename" in arguments:
        # Only a name: what it says must not reach out of the folder.
        name = os.path.basename(arguments["filename"])
        arguments["filename"] = os.path.join(directory, name)
    return kind(**arguments)
