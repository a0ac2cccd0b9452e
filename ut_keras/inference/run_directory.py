"""A trained run as its folder holds it: which model it is, what its ids are, and the weights.

    run = read("runs/ende")              everything that can be checked early: without TensorFlow
    model, path = run.load_model()       the weights, and the checkpoint that they are of

`hparams.json` and `run.json` say which model it is, `features.json` and the vocabularies what its
ids are.
"""

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ut_keras import hparam, models
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import DataError
from ut_keras.hparam import changes as hparam_changes
from ut_keras.inference import decode_hparams, feature_record, run_json
from ut_keras.text import text_encoder_base


@dataclasses.dataclass(frozen=True)
class Run:
    """Which weights are asked for, checked."""

    run_dir: str
    checkpoint: str | None  # the path asked for; None: the newest of `run_dir`
    model_name: str
    hp: Any  # hparams
    specs: dict  # from feature name to `FeatureSpec`
    encoders: dict  # from feature name to `TextEncoder`
    target_space_id: int

    @property
    def is_language_model(self) -> bool:
        return "inputs" not in self.specs

    @property
    def class_labels(self) -> bool:
        return self.specs["targets"].modality == "class_label"

    def to_text(self, name: str, ids: Any) -> str:
        """The text of ids of a feature, without what stands behind EOS."""
        is_class = self.specs[name].modality == "class_label"
        return text_encoder_base.to_text(self.encoders[name], ids, is_class)

    def load_model(self, values: Mapping[str, Any] | None = None) -> tuple[Any, str]:
        """Builds the model and reads its weights; loads TensorFlow.

        Args:
            values: dict of decode hparams, of which those of depth are read. Optional.
        Returns:
            (model, path of the checkpoint).
        Raises:
            CheckpointError: if there is none, it cannot be read, or belongs to another model.
            UsageError: if the model cannot go as deep.
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
    """The `Run` that a folder says by itself; arguments and errors as of `saved_run.load`."""
    run_dir = os.path.expanduser(run_dir)
    if not os.path.isdir(run_dir):
        raise DataError(f"output_dir must be the folder of a run. Received: {run_dir!r}.")
    if problem is not None:
        features = problem_features(problem, data_dir, [run_dir])
    else:
        features = saved_features([run_dir])
    if features is None:
        raise DataError(
            "output_dir must contain features.json with all encoders. Otherwise, give the "
            f'problem and its data_dir: problem=problems.get("…"). Received: {run_dir!r}.'
        )
    record = run_json.read(run_dir)
    hp = read_hparams(run_dir, record)[0]
    if hp is None:
        raise DataError(f"output_dir must contain hparams.json. Received: {run_dir!r}.")
    if not record.get("model"):
        raise DataError(
            f'{os.path.join(run_dir, run_json.FILENAME)} must name the model: {{"model": '
            '"universal_transformer"}. Received: none.'
        )
    checkpoint = os.path.expanduser(checkpoint) if checkpoint else None
    return Run(run_dir, checkpoint, record["model"], hp, *features)


def saved_features(folders: Sequence[str]) -> Any:
    """The `FeatureRecord` of the first folder that has one; None where it lacks an encoder."""
    saved = next(filter(None, map(feature_record.load, folders)), None)
    return None if saved is None or None in saved.encoders.values() else saved


def problem_features(problem: Any, data_dir: str | None, folders: Sequence[str]) -> Any:
    """The `FeatureRecord` of a problem, with the vocabulary that the folders' runs had."""
    features = feature_record.from_problem(problem, data_dir)
    for folder in folders:
        feature_record.check_same_encoders(folder, features)
    return features


def read_hparams(run_dir: str, record: dict[str, Any]) -> tuple[Any, Any]:
    """(hparams in the folder, those that its checkpoints are of); None where there are none.

    Raises:
        HParamError: if the file is not as the run was trained.
    """
    path = os.path.join(run_dir, "hparams.json")
    if not os.path.exists(path):
        return None, None
    saved = hparam.load(path)
    if not checkpoint_files.exists(run_dir):
        return saved, saved
    trained = record.get("trained_with", {}).get("hparams")  # runs of older versions have none
    trained = trained if isinstance(trained, dict) else None
    return saved, hparam_changes.check_as_trained(saved, trained, path)
