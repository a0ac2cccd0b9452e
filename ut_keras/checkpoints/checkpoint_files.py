"""The files of checkpoints: lists them, and writes them completely or not at all.

    run/model.ckpt-1000.data-00000-of-00001    the values
    run/model.ckpt-1000.index                  their names, shapes and checksums
    run/checkpoint                             the list of checkpoints, in TensorFlow's format

    path = save(tf.train.Checkpoint(...), "run", step=1000, keep=20)
    newest_first("run")  ->  ["run/model.ckpt-1000", "run/model.ckpt-500"]

The files of a checkpoint get their final names only when all of them are on disk, the index last.
Then the checkpoint is added to the file `checkpoint`. Listing the checkpoints of a folder by their
step does not need TensorFlow.
"""

import contextlib
import glob
import json
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ut_keras.errors import UserError
from ut_keras.files import file_error, whole_file

if TYPE_CHECKING:
    import tensorflow as tf

STATE = "checkpoint"
NAME = "model.ckpt"
_INDEX = re.compile(r"(model\.ckpt-(\d+))\.index")
_DATA = re.compile(r"(.+)\.data-\d+-of-\d+")
# Pattern of a line in the file `checkpoint`.
_LINE = re.compile(r"""\s*\w+\s*:\s*("(\\.|[^"\\])*"|'(\\.|[^'\\])*'|[-+.\w]+)\s*""")


class CheckpointError(UserError):
    """A checkpoint cannot be read or belongs to another model."""


def exists(directory: str) -> bool:
    """Return whether a folder contains a checkpoint, without importing TensorFlow."""
    return os.path.lexists(os.path.join(directory, STATE)) or bool(_paths_by_step(directory))


def newest_first(directory: str) -> list[str]:
    """Return the paths of the checkpoints to resume from, the best first.

    The checkpoints that the file `checkpoint` lists come first. Then follow those that are not
    listed, because the process was killed or the file was lost. Some checkpoints may be damaged.

    Raises:
        CheckpointError: if the file `checkpoint` exists and lists no checkpoint.
    """
    named = list(reversed(_listed_paths(directory)))
    return [*named, *(path for path in reversed(_paths_by_step(directory)) if path not in named)]


def note_on_later_steps(directory: str, step: int) -> str | None:
    """Return a message if the folder contains checkpoints of steps after `step`.

    Training resumes from `step` and will overwrite them. Without such checkpoints the return value
    is None.
    """
    later = [os.path.basename(path) for path in _paths_by_step(directory) if step_of(path) > step]
    if not later:
        return None
    return f"note: {', '.join(later)} will be overwritten when training reaches this step"


def newest(directory: str) -> str | None:
    """Return the path of the newest checkpoint in a folder, or None.

    The checkpoint may have been written by any process.
    """
    return next(iter(newest_first(directory)), None)


def step_of(path: str) -> int:
    """Return the step of a checkpoint from its path."""
    return int(path.rpartition("-")[2])


def state(directory: str) -> Any:
    """Return TensorFlow's `CheckpointState` from the file `checkpoint` of a folder.

    The return value is None if the file does not exist.

    Raises:
        CheckpointError: if the file lists no checkpoint, or is a broken link. TensorFlow would
            ignore such a file, and training would start from the beginning.
    """
    path = os.path.join(directory, STATE)
    if not os.path.lexists(path):
        return None
    _check_file(path)
    import tensorflow as tf

    with file_error.named(path), open(path, "rb") as file:
        lines = file.read().decode("utf-8", "replace").splitlines()
    wrong = next((line for line in lines if line.strip() and not _LINE.fullmatch(line)), None)
    try:
        found = None if wrong else tf.train.get_checkpoint_state(directory)
    except ValueError:  # The file has no newest checkpoint, or it is not UTF-8.
        found = None
    if not found or not found.model_checkpoint_path:
        raise CheckpointError(
            f'{path} must name a checkpoint: model_checkpoint_path: "model.ckpt-1000". '
            f"Received: {(wrong or ' '.join(lines))[:80]!r}."
        )
    return found


def save(checkpoint: "tf.train.Checkpoint", directory: str, step: int, keep: int = 0) -> str:
    """Write the checkpoint of a step, list it, and return its path.

    The folder is created if it does not exist. Of the older checkpoints, the newest ones are kept,
    so that there are `keep` checkpoints in total. With 0, all are kept.

    Raises:
        OSError, tf.errors.OpError: if the checkpoint cannot be written. Earlier files are
        unchanged.
    """
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"{NAME}-{step}")
    try:
        others = _listed_paths(directory)
    except CheckpointError:
        others = []
    others = others or [path for path in _paths_by_step(directory) if step_of(path) < step]
    others = [other for other in others if other != path and os.path.exists(f"{other}.index")]
    write(checkpoint, path)
    record(directory, [*others, path])
    if 0 < keep <= len(others):
        kept = [*others[len(others) + 1 - keep :], path]
        for other in others:  # The file `checkpoint` may list checkpoints in other folders.
            if other not in kept and os.path.samefile(os.path.dirname(other), directory):
                _remove(other)
        record(directory, kept)
    return path


def write(checkpoint: "tf.train.Checkpoint", path: str) -> None:
    """Write a checkpoint to an existing folder without listing it.

    Raises:
        OSError, tf.errors.OpError: as in `save`.
    """
    name = os.path.basename(path)
    checkpoint.save_counter.assign_add(1)  # TensorFlow's checkpoint managers require the counter.
    with file_error.user_error_context(path), whole_file.temporary_folder(path) as temporary:
        checkpoint.write(os.path.join(temporary, name))
        files = sorted(file for file in os.listdir(temporary) if file.startswith(f"{name}."))
        # The data files sort before the index. An existing index is removed first: it would not
        # match the new values.
        whole_file.move_into_place(
            [
                (os.path.join(temporary, file), os.path.join(os.path.dirname(path), file))
                for file in files
            ],
            obsolete=f"{path}.index",
        )


def record(directory: str, paths: Sequence[str]) -> None:
    """List checkpoints, the oldest first, in the file `checkpoint` of a folder."""
    names = [json.dumps(os.path.relpath(path, directory), ensure_ascii=False) for path in paths]
    times = [os.path.getmtime(f"{path}.index") for path in paths]
    lines = [
        f"model_checkpoint_path: {names[-1]}",
        *(f"all_model_checkpoint_paths: {each}" for each in names),
        # Without timestamps, TensorFlow's manager only uses the newest checkpoint.
        *(f"all_model_checkpoint_timestamps: {time}" for time in times),
        f"last_preserved_timestamp: {min(times) - 1}",
    ]
    with whole_file.writing(os.path.join(directory, STATE)) as file:
        file.writelines(f"{line}\n" for line in lines)


def remove_incomplete(directory: str) -> None:
    """Remove temporary files of checkpoints that were not written completely.

    Only the process that writes the checkpoints may call this function.
    """
    for pattern in (f"{NAME}-*", STATE):
        whole_file.remove_leftovers(os.path.join(directory, pattern))


def check_accessible(path: str) -> None:
    """Check that the files of a checkpoint can be opened. They may be damaged.

    Raises:
        CheckpointError: if a file is a broken link or belongs to another user. The run then does
            not fall back to an older checkpoint, because the user did not request that one.
    """
    for file in glob.glob(f"{glob.escape(path)}.*"):
        if file == f"{path}.index" or _DATA.fullmatch(file):
            _check_file(file)


def _check_file(path):
    file_error.check_is_file(path, CheckpointError)
    try:
        with file_error.named(path), open(path, "rb"):
            pass
    except OSError as error:
        raise CheckpointError(
            f"A checkpoint must be readable. Received: {file_error.one_line(error)}."
        ) from error


def _listed_paths(directory):
    """Return the paths that the file `checkpoint` lists, the newest last.

    The list is empty if the file does not exist.
    """
    found = state(directory)
    if found is None:
        return []
    # The file names the newest checkpoint separately. The user may have set it to an older one, and
    # a file of TensorFlow 1 may list no other checkpoint.
    newest = found.model_checkpoint_path
    return [*(path for path in found.all_model_checkpoint_paths if path != newest), newest]


def _paths_by_step(directory):
    """Return the paths of all checkpoints in the folder, in the order of their steps."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        matches = [match for match in map(_INDEX.fullmatch, os.listdir(directory)) if match]
        matches.sort(key=lambda match: int(match[2]))
        return [os.path.join(directory, match[1]) for match in matches]
    return []


def _remove(path):
    folder, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{path}.index")
    for found in os.listdir(folder or "."):
        data = _DATA.fullmatch(found)
        if data and data[1] == name:
            os.remove(os.path.join(folder, found))
