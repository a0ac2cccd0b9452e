"""Checks and locks the output folder of a run.

output_folder.check("run")              checks that a run may use the folder
with output_folder.lock("run"): …       creates the folder and excludes all other processes
"""

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from typing import Any

from ut_keras import hparam_schema
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import UsageError, UserError
from ut_keras.files import file_error, metrics_file, new_folder, path_lock, whole_file
from ut_keras.inference import feature_record, run_json

BEST = "best"  # the subfolder with the weights of the best evaluation
SAVED = "model.safetensors"  # the weights that `run.save` writes
_RECORDS = (
    "hparams.json",
    run_json.FILENAME,
    feature_record.FILENAME,
    *feature_record.VOCABULARIES,
)


def check(output_dir: str, allowed_record: str = "") -> None:
    """Check that a run may use the output folder.

    A missing folder is not created, because the run may still end with an error. `lock` creates it.

    Args:
        output_dir: str.
        allowed_record: str. Name of a file of a run, such as "hparams.json", that the user has put
            into the folder. Optional.

    Raises:
        UsageError: if the folder contains the results of a run but no checkpoint of this run. The
            cases of `check_location` also raise this error.
        OSError: if the folder, or the parent in which it will be created, is not writable.
    """
    results = metrics_file.path(output_dir)
    has_results = os.path.isfile(results) and os.path.getsize(results)
    if has_results and not checkpoint_files.exists(output_dir):
        raise UsageError(
            f"--output_dir must contain a checkpoint of the run that wrote {results!r}, because "
            "training from the beginning would remove these results. Received: no checkpoint."
        )
    check_location(output_dir, allowed_record)
    with file_error.user_error_context(output_dir):
        whole_file.check_writable(_existing(output_dir))


def _existing(path):
    """Return the absolute path, or its closest parent that exists."""
    path = os.path.abspath(path)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def check_location(output_dir: str, allowed_record: str = "") -> None:
    """Check that a run of ut_keras can start or resume in a folder.

    Raises:
        UsageError: in each of these cases:

            - The path, or a parent of it, is not a folder.
            - A file in the folder has the name of a run's record but belongs to no run.
            - The folder contains weights but no checkpoint of their run.
            - The folder's name contains characters that TensorFlow's checkpoint reader interprets
              as a pattern.
    """
    if re.search(r"\[[^/]*\]|\\", output_dir):
        raise UsageError(
            "--output_dir must not contain [ ] or \\, because TensorFlow would not find the "
            f"checkpoints. Received: {output_dir!r}."
        )
    existing = _existing(output_dir)
    if not os.path.isdir(existing):
        raise UsageError(
            f"--output_dir must be a folder. Received: {output_dir!r}, but {existing!r} is not a "
            "folder."
        )
    best = os.path.join(output_dir, BEST)
    path = foreign_record(output_dir, allowed_record) or foreign_record(best)
    if path:
        raise UsageError(
            f"--output_dir must not contain other files with the names of a run's files. "
            f"Received: {path!r}, which does not belong to a run. It was not changed."
        )
    if not checkpoint_files.exists(output_dir):
        path = best if checkpoint_files.exists(best) else os.path.join(output_dir, SAVED)
        if os.path.lexists(path):
            raise UsageError(
                "--output_dir must contain a checkpoint, or no weights. Received: "
                f"{path!r} without a checkpoint of its run. It was not changed."
            )


@contextlib.contextmanager
def lock(output_dir: str) -> Iterator[None]:
    """Lock the folder, so that no other process can train, search or import in it.

    If the folder or its parents did not exist before and are still empty at the end, they are
    removed.

    Raises:
        LockedError: if another process holds the lock.
    """
    path = os.path.join(output_dir, "run")
    with (
        new_folder.made(output_dir),
        path_lock.held(path, "--output_dir must be written", output_dir),
    ):
        yield


def write_records(directory: str, hp: Any, features: Any, **record: Any) -> None:
    """Write the files that describe a run.

    The values of `record` are written to run.json.
    """
    # `foreign_record` recognizes a run by run.json, so this file is written first.
    run_json.write(directory, **record)
    hparam_schema.save(hp, os.path.join(directory, "hparams.json"))
    feature_record.save(directory, features)


def foreign_record(directory: str, allowed_record: str = "") -> str | None:
    """Return the path of a foreign file, or None.

    The file has the name of a run's record or of a run's weights, but no run has written it.
    """
    if checkpoint_files.exists(directory):
        return None
    # A run that was killed before its first checkpoint is recognized by its run.json.
    with contextlib.suppress(UserError, OSError):
        if "trained_with" in run_json.read(directory):
            return None
    paths = [os.path.join(directory, name) for name in _RECORDS if name != allowed_record]
    pattern = f"{checkpoint_files.NAME}-*.data-?????-of-?????"
    paths += glob.glob(os.path.join(glob.escape(directory), pattern))
    return next(filter(os.path.lexists, paths), None)
