"""The files of checkpoints: which a folder holds, and how one gets there whole.

    run/model.ckpt-1000.data-00000-of-00001    the values
    run/model.ckpt-1000.index                  their names, shapes and checksums
    run/checkpoint                             which there are, as TensorFlow writes it

    path = save(tf.train.Checkpoint(...), "run", step=1000, keep=20)
    newest_first("run")  ->  ["run/model.ckpt-1000", "run/model.ckpt-500"]

A checkpoint gets its names when the disk has all of it, the index last, and is then named in the
file `checkpoint`. Which are there can be asked without TensorFlow.
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
# A line of the file `checkpoint`.
_LINE = re.compile(r"""\s*\w+\s*:\s*("(\\.|[^"\\])*"|'(\\.|[^'\\])*'|[-+.\w]+)\s*""")


class CheckpointError(UserError):
    """A checkpoint that cannot be read or belongs to another model."""


def exists(directory: str) -> bool:
    """Whether a run has left a checkpoint in `directory`; loads nothing."""
    return os.path.lexists(os.path.join(directory, STATE)) or bool(_paths_by_step(directory))


def newest_first(directory: str) -> list[str]:
    """Paths of the checkpoints to go on from, the best first; some may be damaged.

    They are those that the file `checkpoint` names, then those that are there without being named,
    as after a kill, or where that file was lost.

    Raises:
        CheckpointError: if the file `checkpoint` names none.
    """
    named = list(reversed(_listed_paths(directory)))
    return [*named, *(path for path in reversed(_paths_by_step(directory)) if path not in named)]


def note_on_later_steps(directory: str, step: int) -> str | None:
    """One line on the checkpoints of later steps than training goes on from; None without any."""
    later = [os.path.basename(path) for path in _paths_by_step(directory) if step_of(path) > step]
    if not later:
        return None
    return f"note: {', '.join(later)} will be overwritten when training reaches this step"


def newest(directory: str) -> str | None:
    """Path of the newest checkpoint that any process has written to `directory`, or None."""
    return next(iter(newest_first(directory)), None)


def step_of(path: str) -> int:
    """The step of a checkpoint."""
    return int(path.rpartition("-")[2])


def state(directory: str) -> Any:
    """TensorFlow's `CheckpointState` of a folder's file `checkpoint`; None without one.

    Raises:
        CheckpointError: if it names none, or is a link that leads nowhere. (TensorFlow ignores it,
            and training would begin anew.)
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
    except ValueError:  # without the field that names the newest, or not UTF-8
        found = None
    if not found or not found.model_checkpoint_path:
        raise CheckpointError(
            f'{path} must name a checkpoint: model_checkpoint_path: "model.ckpt-1000". '
            f"Received: {(wrong or ' '.join(lines))[:80]!r}."
        )
    return found


def save(checkpoint: "tf.train.Checkpoint", directory: str, step: int, keep: int = 0) -> str:
    """Writes the checkpoint of a step to a folder, which is made if it is gone; returns the path.

    Then it is named, and the oldest go, all but the newest `keep`; 0 keeps all.

    Raises:
        OSError, tf.errors.OpError: if it cannot be written; what there was is as it was.
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
        for other in others:  # the file `checkpoint` may name those of other folders
            if other not in kept and os.path.samefile(os.path.dirname(other), directory):
                _remove(other)
        record(directory, kept)
    return path


def write(checkpoint: "tf.train.Checkpoint", path: str) -> None:
    """Writes a checkpoint to a folder that exists, without naming it; raises as `save`."""
    name = os.path.basename(path)
    checkpoint.save_counter.assign_add(1)  # which TensorFlow's managers look for
    with file_error.told_as(path), whole_file.folder(path) as temporary:
        checkpoint.write(os.path.join(temporary, name))
        files = sorted(file for file in os.listdir(temporary) if file.startswith(f"{name}."))
        # The values first. An index that is there would go with those of another checkpoint.
        whole_file.put(
            [
                (os.path.join(temporary, file), os.path.join(os.path.dirname(path), file))
                for file in files
            ],
            instead_of=f"{path}.index",
        )


def record(directory: str, paths: Sequence[str]) -> None:
    """Names checkpoints, the oldest first, in the file `checkpoint` of a folder."""
    names = [json.dumps(os.path.relpath(path, directory), ensure_ascii=False) for path in paths]
    times = [os.path.getmtime(f"{path}.index") for path in paths]
    lines = [
        f"model_checkpoint_path: {names[-1]}",
        *(f"all_model_checkpoint_paths: {each}" for each in names),
        # Without these, TensorFlow's manager looks at the newest only.
        *(f"all_model_checkpoint_timestamps: {time}" for time in times),
        f"last_preserved_timestamp: {min(times) - 1}",
    ]
    with whole_file.writing(os.path.join(directory, STATE)) as file:
        file.writelines(f"{line}\n" for line in lines)


def remove_incomplete(directory: str) -> None:
    """Removes what is left of checkpoints whose writing did not end.

    Only the process that writes the checkpoints may do that.
    """
    for pattern in (f"{NAME}-*", STATE):
        whole_file.remove_leftovers(os.path.join(directory, pattern))


def check_accessible(path: str) -> None:
    """Checks that the files of a checkpoint can be opened; what is damaged can be.

    Raises:
        CheckpointError: if one is a link that leads nowhere, or another user's: then an older
            checkpoint is not what was asked for.
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
            f"A checkpoint must be readable. Received: {file_error.line(error)}."
        ) from error


def _listed_paths(directory):
    """Paths that the file `checkpoint` names, the newest last; [] without one."""
    found = state(directory)
    if found is None:
        return []
    # The newest is what the file calls so: it may have been set back, or, of TensorFlow 1, name no
    # other.
    newest = found.model_checkpoint_path
    return [*(path for path in found.all_model_checkpoint_paths if path != newest), newest]


def _paths_by_step(directory):
    """Paths of the checkpoints that are there under a step's number, by step."""
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
