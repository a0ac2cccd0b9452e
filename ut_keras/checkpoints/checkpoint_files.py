"""List checkpoint files and write them atomically.

    run/model.ckpt-1000.data-00000-of-00001    the values of the variables
    run/model.ckpt-1000.index                  the names, shapes and checksums of the variables
    run/checkpoint                             the list of checkpoints, in TensorFlow's format

    path = save(tf.train.Checkpoint(...), "run", step=1000, keep=20)
    newest_first("run")  ->  ["run/model.ckpt-1000", "run/model.ckpt-500"]

`save` first writes all files of a checkpoint under temporary names. When all files are on disk,
`save` gives them their final names, and renames the index last. Then it adds the checkpoint to the
file `checkpoint`.

Only the functions that need TensorFlow import it. `exists` does not need TensorFlow.
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
    """Return the checkpoints from which a run can resume, the best choice first.

    The checkpoints in the file `checkpoint` come first, beginning with the newest checkpoint. They
    are followed by the other checkpoints in the folder, by decreasing step. A checkpoint can be
    missing from the file because a process was killed or because the file was lost. This function
    does not check whether a checkpoint is damaged.

    Raises:
        CheckpointError: if the file `checkpoint` exists and lists no checkpoint.
    """
    named = list(reversed(_listed_paths(directory)))
    return [*named, *(path for path in reversed(_paths_by_step(directory)) if path not in named)]


def newest_first_of_run(directory: str) -> list[str]:
    """Return the paths of `newest_first`, except those of an abandoned training.

    If the user goes back to an earlier checkpoint, the later checkpoints remain in the folder until
    training reaches their steps again. The file `checkpoint` does not list them, because they do
    not belong to the same training as the newest checkpoint.

    Raises:
        CheckpointError: in the same case as `newest_first`.
    """
    named = _listed_paths(directory)
    others = [path for path in newest_first(directory) if path not in named]
    if named and (match := _INDEX.fullmatch(f"{os.path.basename(named[-1])}.index")):
        others = [path for path in others if step_of(path) < int(match[2])]
    return [*reversed(named), *others]


def note_on_later_steps(directory: str, step: int) -> str | None:
    """Return a message if the folder contains checkpoints of steps after `step`.

    Training resumes from `step` and will overwrite these checkpoints. The return value is None if
    there are no such checkpoints.
    """
    later = [os.path.basename(path) for path in _paths_by_step(directory) if step_of(path) > step]
    if not later:
        return None
    return f"note: {', '.join(later)} will be overwritten when training reaches this step"


def newest(directory: str) -> str | None:
    """Return the path of the newest checkpoint in a folder, or None if there is none.

    The checkpoint may be from any process.
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
            ignore such a file, so training would start again at step 0.
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
            f'{path} must name a checkpoint, such as model_checkpoint_path: "model.ckpt-1000". '
            f"Received: {(wrong or ' '.join(lines))[:80]!r}."
        )
    return found


def save(checkpoint: "tf.train.Checkpoint", directory: str, step: int, keep: int = 0) -> str:
    """Write the checkpoint of a step, add it to the list, and return its path.

    The folder is created if it does not exist. If `keep` is not 0, the oldest checkpoints are then
    removed until `keep` checkpoints remain, including the new checkpoint.

    Raises:
        OSError, tf.errors.OpError: if the checkpoint cannot be written. Earlier files are then
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
        for other in others:  # Checkpoints in other folders may be listed too. They are kept.
            if other not in kept and os.path.samefile(os.path.dirname(other), directory):
                _remove(other)
        record(directory, kept)
    return path


def write(checkpoint: "tf.train.Checkpoint", path: str) -> None:
    """Write a checkpoint to an existing folder without adding it to the list.

    Raises:
        OSError, tf.errors.OpError: in the same cases as `save`.
    """
    name = os.path.basename(path)
    checkpoint.save_counter.assign_add(1)  # TensorFlow's checkpoint managers require the counter.
    with file_error.user_error_context(path), whole_file.temporary_folder(path) as temporary:
        checkpoint.write(os.path.join(temporary, name))
        files = sorted(file for file in os.listdir(temporary) if file.startswith(f"{name}."))
        # In sorted order, the data files come before the index. An existing index with the same
        # name is removed first, because the old index would not match the new data files.
        whole_file.move_into_place(
            [
                (os.path.join(temporary, file), os.path.join(os.path.dirname(path), file))
                for file in files
            ],
            obsolete=f"{path}.index",
        )


def record(directory: str, paths: Sequence[str]) -> None:
    """Write the file `checkpoint` of a folder, which lists `paths`, the oldest first."""
    names = [json.dumps(os.path.relpath(path, directory), ensure_ascii=False) for path in paths]
    times = [os.path.getmtime(f"{path}.index") for path in paths]
    lines = [
        f"model_checkpoint_path: {names[-1]}",
        *(f"all_model_checkpoint_paths: {each}" for each in names),
        # Without timestamps, `tf.train.CheckpointManager` ignores all but the newest checkpoint.
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
    """Check that a checkpoint's files can be opened, without checking their content.

    Raises:
        CheckpointError: if a file is a broken link or cannot be read, for example because another
            user owns it. The run then stops. It does not use an older checkpoint instead, because
            the user has not requested an older one.
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
    # A separate field of the file names the newest checkpoint. The user may have set this field to
    # an older checkpoint. In a file of TensorFlow 1, only this field may name a checkpoint.
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
