"""Whether a command may write a run into a folder, and that it alone does.

run_folder.check("run")              makes it, if it may be written to
with run_folder.lock("run"): …       nobody else does
"""

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from typing import Any

from ut_keras import hparam
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import UsageError, UserError
from ut_keras.files import metrics_file, path_lock, whole_file
from ut_keras.inference import feature_record, run_json

BEST = "best"  # a folder in a run's, of the weights of its best evaluation
SAVED = "model.safetensors"  # of what `run.save` writes
_RECORDS = (
    "hparams.json",
    run_json.FILENAME,
    feature_record.FILENAME,
    *feature_record.VOCABULARIES,
)


def check(output_dir: str, given: str = "") -> None:
    """Makes the folder if there is none; `given` is the name of a record of the user's there.

    Raises:
        UsageError: if it holds the results of a run whose checkpoints are gone; as `check_place`.
        OSError: if nothing can be written there.
    """
    results = metrics_file.path(output_dir)
    has_results = os.path.isfile(results) and os.path.getsize(results)
    if has_results and not checkpoint_files.exists(output_dir):
        raise UsageError(
            f"--output_dir must hold a checkpoint of the run that wrote {results!r}: training "
            "would begin anew and remove its results. Received: no checkpoint."
        )
    check_place(output_dir, given)
    whole_file.check_writable(output_dir)


def check_place(output_dir: str, given: str = "") -> None:
    """UsageError if no run of ours can begin or go on in a folder.

    It may hold somebody else's file of the name of a run's record, weights that are of no run in
    it, or be called what TensorFlow's reader of checkpoints takes for a pattern.
    """
    if re.search(r"\[[^/]*\]|\\", output_dir):
        raise UsageError(
            "--output_dir must have no [ ] and no \\ in it: checkpoints would not be found. "
            f"Received: {output_dir!r}."
        )
    best = os.path.join(output_dir, BEST)
    path = foreign_record(output_dir, given) or foreign_record(best)
    if path:
        raise UsageError(
            f"--output_dir must be a folder for a run. Received: {path!r}, which is no run's "
            "and is left as it is."
        )
    if not checkpoint_files.exists(output_dir):
        path = best if checkpoint_files.exists(best) else os.path.join(output_dir, SAVED)
        if os.path.lexists(path):
            raise UsageError(
                "--output_dir must hold a checkpoint, or no weights. Received: "
                f"{path!r}, of another run or one whose checkpoints are gone; it is left as it is."
            )


@contextlib.contextmanager
def lock(output_dir: str) -> Iterator[None]:
    """Context in which this process alone trains, searches or imports into a folder.

    A folder that is made for it, and stays empty, is removed.

    Raises:
        LockedError: if another one does.
    """
    is_new = not os.path.exists(output_dir)
    os.makedirs(output_dir, exist_ok=True)
    try:
        with path_lock.held(
            os.path.join(output_dir, "run"), "--output_dir must be written", output_dir
        ):
            yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                os.rmdir(output_dir)


def write_records(directory: str, hp: Any, features: Any, **record: Any) -> None:
    """Writes what says whose run a folder holds; `record` goes to run.json."""
    run_json.write(directory, **record)  # first: by it `foreign_record` knows the others
    hparam.save(hp, os.path.join(directory, "hparams.json"))
    feature_record.save(directory, features)


def foreign_record(directory: str, given: str = "") -> str | None:
    """The path of what has the name of a run's record or weights and is of no run, or None."""
    if checkpoint_files.exists(directory):
        return None
    # Of a run that was killed before its first checkpoint, run.json was written first.
    with contextlib.suppress(UserError, OSError):
        if "trained_with" in run_json.read(directory):
            return None
    paths = [os.path.join(directory, name) for name in _RECORDS if name != given]
    pattern = f"{checkpoint_files.NAME}-*.data-?????-of-?????"
    paths += glob.glob(os.path.join(glob.escape(directory), pattern))
    return next(filter(os.path.lexists, paths), None)
