"""Reads the folder of a run: model, hparams, text encoders and weights.

    run = read("runs/ende")              everything except the weights, without TensorFlow
    model, path = run.load_model()       the model with its weights, and the path of the checkpoint

`hparams.json` and `run.json` define the model. `features.json` and the vocabularies define which
text each id stands for.
"""

import contextlib
import dataclasses
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ut_keras import hparam_schema, models
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import DataError
from ut_keras.files import file_error
from ut_keras.hparam_schema import changes as hparam_changes
from ut_keras.inference import decode_hparams, feature_record, run_json
from ut_keras.registry import UnknownNameError
from ut_keras.text import text_encoder_base

# A folder that contains one of these files is treated as the folder of a run, even if another file
# is missing. `SavedRun.save` writes config.json.
_FILES = (run_json.FILENAME, "hparams.json", feature_record.FILENAME, "config.json")
_OWN_PACKAGE = (
    "A run with parts of your own package requires --t2t_usr_dir, or in Python an import of the "
    "package."
)
_WEIGHTS_HINT = (
    " If model.save_weights wrote this file, make the model and call model.load_weights. To save a "
    'complete model, use model.save("NAME.keras").'
)
_MOST_NAMES = 5  # maximum number of runs in an error message


@dataclasses.dataclass(frozen=True)
class Run:
    """The checked content of a run's folder, without the weights."""

    run_dir: str
    checkpoint: str | None  # path of the checkpoint; None means the newest one in `run_dir`
    model_name: str
    hp: Any  # hparams
    specs: dict  # feature name -> `FeatureSpec`
    encoders: dict  # feature name -> `TextEncoder`
    target_space_id: int
    prefixes: Mapping[str, str]  # feature name -> the prefix of its texts in training

    @property
    def is_language_model(self) -> bool:
        return "inputs" not in self.specs

    @property
    def class_labels(self) -> bool:
        return self.specs["targets"].modality == "class_label"

    def to_text(self, name: str, ids: Any) -> str:
        """Return the text of a feature's ids up to EOS."""
        is_class = self.specs[name].modality == "class_label"
        return text_encoder_base.to_text(self.encoders[name], ids, is_class)

    def load_model(self, values: Mapping[str, Any] | None = None) -> tuple[Any, str]:
        """Build the model and load its weights; this imports TensorFlow.

        Args:
            values: dict of decode hparams. Only num_steps and exit_threshold are used.
                Optional.

        Returns:
            (model, path of the checkpoint).

        Raises:
            CheckpointError: if there is no checkpoint, or it cannot be read or belongs to another
                model.
            UsageError: if the model does not support num_steps or exit_threshold.
        """
        from ut_keras.checkpoints import checkpoint

        model = models.from_specs(self.model_name, self.hp, self.specs, self.target_space_id)
        path: Any = self.checkpoint
        if path:
            checkpoints = checkpoint.Checkpoints(self.run_dir, model)
            checkpoints.restore(path)
        else:
            checkpoints = checkpoint.restored(self.run_dir, model)
            path = checkpoints.newest
        if checkpoints.has_moving_average:
            print(f"note: not loading the averaged weights in {path}; see best/", file=sys.stderr)
        decode_hparams.check_depth(values or {}, model)
        num_steps = (values or {}).get("num_steps")
        return (model.with_steps(num_steps) if num_steps else model), path


def read(
    run_dir: str | os.PathLike[str],
    checkpoint: str | None = None,
    problem: Any = None,
    data_dir: str | None = None,
) -> Run:
    """Return the `Run` in a folder.

    The arguments and errors are as for `saved_run.load`.
    """
    run_dir = file_error.checked_path(run_dir, "run_dir")
    checkpoint = file_error.optional_path(checkpoint, "checkpoint")
    check_folder(run_dir, "output_dir")
    if problem is not None:
        features = problem_features(problem, data_dir, [run_dir])
    else:
        features = saved_features([run_dir])
    if features is None:
        raise DataError(
            f"{run_dir} must contain features.json with all encoders. Otherwise, give the "
            'problem and its data_dir: problem=problems.get("…"). Received: a folder without them.'
        )
    record = run_json.read(run_dir)
    hp = read_hparams(run_dir, record)[0]
    if hp is None:
        raise DataError(f"{run_dir} must contain hparams.json. Received: no such file.")
    if not record.get("model"):
        raise DataError(
            f'{os.path.join(run_dir, run_json.FILENAME)} must name the model: {{"model": '
            '"universal_transformer"}. Received: none.'
        )
    check_model_name(record["model"])
    for note in checkpoint_notes(run_dir, checkpoint, hp, features):
        logging.getLogger("ut_keras").warning(note.removeprefix("note: "))
    return Run(run_dir, checkpoint, record["model"], hp, *features)


def checkpoint_notes(run_dir: str, checkpoint: str | None, hp: Any, features: Any) -> list[str]:
    """Check that the weights of a checkpoint fit the model of a run.

    A checkpoint contains neither hparams nor vocabularies. If it is in another folder than the run,
    the records of its own folder are compared with the run. Nothing is checked without records.

    Args:
        run_dir: str. Folder of the run.
        checkpoint: str. Path of the checkpoint, or None for a checkpoint of the run.
        hp: hparams of the model.
        features: `FeatureRecord` of the model.

    Returns:
        list with one note for each hparam that differs. Such an hparam changes what the model
        computes, but not the shapes of the weights.

    Raises:
        HParamError: if the weights were trained with hparams of another architecture.
        DataError: if the weights were trained with another vocabulary.
    """
    folder = os.path.dirname(checkpoint or "")
    if not checkpoint or os.path.realpath(folder) == os.path.realpath(run_dir):
        return []
    feature_record.check_same_features(folder, features)
    record = run_json.read(folder)
    trained = read_hparams(folder, record)[1] if record else None  # T2T's folders have no record
    if trained is None:
        return []
    path = os.path.join(folder, "hparams.json")
    try:
        hparam_schema.check_same_architecture(trained, hp)
    except hparam_schema.HParamError as error:
        raise hparam_schema.HParamError(f"{path}: {error}") from error
    return hparam_changes.notes(trained, hp, path, inference_only=True)


def check_model_name(name: str) -> None:
    """Raise `UnknownNameError` if no model `name` is registered.

    An example is a model of a package that is not imported.
    """
    try:
        models.check_name(name)
    except UnknownNameError as error:
        raise UnknownNameError(f"{error} {_OWN_PACKAGE}") from error


def check_arguments(checkpoint: Any, problem: Any, data_dir: Any) -> None:
    """Check the types of the arguments of `saved_run.load`.

    Raises:
        DataError: if an argument has the wrong type. The message names the argument.
    """
    if checkpoint is not None:
        file_error.checked_path(checkpoint, "checkpoint_path")
    if data_dir is not None:
        file_error.checked_path(data_dir, "data_dir")
    if problem is not None and not hasattr(problem, "feature_specs"):
        name = problem if isinstance(problem, str) else "…"
        raise DataError(
            f'problem must be a Problem, such as problems.get("{name}") of ut_keras, or None. '
            f"Received: {problem!r}."
        )


def check_keras_arguments(checkpoint: Any, problem: Any, data_dir: Any) -> None:
    """Check the arguments of `saved_run.load` for a model that Keras saved.

    Raises:
        DataError: if `checkpoint` is given, or if `data_dir` is given without a problem. The
            message names the argument.
    """
    if checkpoint is not None:
        raise DataError(
            f"checkpoint_path must be None for a model that Keras saved. Received: {checkpoint!r}."
        )
    if data_dir is not None and problem is None:
        raise DataError(
            "problem must be the Problem whose vocabulary is in data_dir, for a model that Keras "
            f"saved. Received: data_dir={data_dir!r} without a problem."
        )


def check_folder(path: str, name: str) -> None:
    """Check that a path is the folder of a run or a folder that `SavedRun.save` wrote.

    Args:
        path: str.
        name: str. The name of the argument, for the message.

    Raises:
        DataError: if the path is not such a folder. If it is a folder of runs, the message names
            the runs.
    """
    if not os.path.isdir(path):
        what = "is a file" if os.path.exists(path) else "does not exist"
        hint = _WEIGHTS_HINT if path.endswith((".h5", ".hdf5")) and what == "is a file" else ""
        raise DataError(
            f"{name} must be the folder of a run. Received: {path!r}, which {what}.{hint}"
        )
    if not _is_run(path):
        raise DataError(
            f"{name} must be the folder of a run, with {run_json.FILENAME}. "
            f"Received: {path!r}, which {runs_in(path) or _exports_in(path) or 'has none'}."
        )


def runs_in(folder: str, with_checkpoint: bool = False) -> str:
    """Return "contains the runs …" for a folder of runs, and "" for any other folder.

    With `with_checkpoint`, a folder without a checkpoint is not a run. An example is the folder
    "best" of a run that failed before its first checkpoint.
    """
    with contextlib.suppress(OSError):
        paths = (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
        if runs := [
            path
            for path in paths
            if _is_run(path) and (not with_checkpoint or checkpoint_files.exists(path))
        ]:
            more = f" and {len(runs) - _MOST_NAMES} more" if len(runs) > _MOST_NAMES else ""
            return f"contains the runs {', '.join(runs[:_MOST_NAMES])}{more}"
    return ""


def _exports_in(folder):
    """Return how to load the newest SavedModel in a folder, or "" if there is none."""
    with contextlib.suppress(OSError):
        for path in (folder, *(os.path.join(folder, n) for n in sorted(os.listdir(folder))[::-1])):
            if os.path.isfile(os.path.join(path, "saved_model.pb")):
                return f'has a SavedModel: load it with tf.saved_model.load("{path}")'
    return ""


def _is_run(folder):
    return any(os.path.isfile(os.path.join(folder, name)) for name in _FILES)


def saved_features(folders: Sequence[str]) -> Any:
    """Return the `FeatureRecord` of the first folder that has one.

    The result is None if no folder has a record or if an encoder could not be stored.
    """
    saved = next(filter(None, map(feature_record.load, folders)), None)
    return None if saved is None or None in saved.encoders.values() else saved


def problem_features(problem: Any, data_dir: str | None, folders: Sequence[str]) -> Any:
    """Return a problem's `FeatureRecord`, and check it against the folders' records."""
    features = feature_record.from_problem(problem, data_dir)
    for folder in folders:
        feature_record.check_same_features(folder, features)
    return features


def read_hparams(run_dir: str, record: dict[str, Any]) -> tuple[Any, Any]:
    """Return (hparams in hparams.json, hparams of the checkpoints).

    Without hparams.json, both are None.

    Raises:
        HParamError: if hparams.json contradicts the hparams that the run was trained with.
    """
    path = os.path.join(run_dir, "hparams.json")
    if not os.path.exists(path):
        return None, None
    try:
        saved = hparam_schema.load(path)
    except hparam_schema.HParamError as error:
        if not any(words in str(error) for words in (" must be one of ", "Unknown hparam")):
            raise
        raise hparam_schema.HParamError(f"{error} {_OWN_PACKAGE}") from error
    if not checkpoint_files.exists(run_dir):
        return saved, saved
    # The run.json of an older version lacks this entry.
    trained = record.get("trained_with", {}).get("hparams")
    trained = trained if isinstance(trained, dict) else None
    return saved, hparam_changes.check_as_trained(saved, trained, path)
