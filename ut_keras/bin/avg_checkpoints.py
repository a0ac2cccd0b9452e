"""ut-avg-checkpoints: average the weights of several checkpoints of a run.

    ut-avg-checkpoints --prefix=run/ --num_last_checkpoints=8 --output_path=averaged/averaged.ckpt
    ut-avg-checkpoints --prefix=run/model.ckpt- --checkpoints=1000,2000 --output_path=…

The first command writes averaged/averaged.ckpt-0, and copies the run's hparams.json and run.json
next to this checkpoint. To use the average, give --checkpoint_path=averaged/averaged.ckpt-0 to
ut-decoder, or --output_dir=averaged to any command that evaluates or decodes. The average has no
optimizer state, so it cannot be used to resume training. If --output_path is in the folder of a
run, the files of the run do not change.

`--weights_dtype=float16` stores the weights in 16 bits instead of 32. The file is then half as
large as with 32 bits, and easier to share. With a single checkpoint, the command only converts the
weights.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from ut_keras.bin import command, flags
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import UsageError
from ut_keras.files import path_lock, whole_file
from ut_keras.hparam_schema import changes as hparam_changes
from ut_keras.inference import feature_record, run_directory, run_json
from ut_keras.training import output_folder

_RECORDS = ("run.json", "hparams.json")
# Hparams that do not change the meaning of the weights. The averaged runs may differ in them.
_MAY_DIFFER = ("activation_dtype", "num_rec_steps_sampling")


def main(argv: Sequence[str] | None = None) -> int:
    """Run ut-avg-checkpoints and return the exit code."""
    return command.run_with_flags(_main, flags.AVG_CHECKPOINTS, "ut-avg-checkpoints", __doc__, argv)


def _main(args: command.Args) -> None:
    output_path = os.path.abspath(args.output_path)
    if not os.path.basename(args.output_path) or os.path.isdir(output_path):
        raise UsageError(
            "--output_path must be the name of a file, such as averaged/averaged.ckpt. "
            f"Received: {args.output_path!r}."
        )
    if args.checkpoints:
        paths = named_checkpoints(args.checkpoints, args.prefix)
        if args.num_last_checkpoints:
            print("note: --num_last_checkpoints has no effect with --checkpoints, as in T2T")
    else:
        paths = last_checkpoints(args.num_last_checkpoints, args.prefix)
    written = f"{output_path}-0"
    is_source = os.path.realpath(written) in map(os.path.realpath, paths)
    has_run_name = os.path.basename(output_path) == checkpoint_files.NAME
    if is_source or (has_run_name and os.path.exists(f"{written}.index")):
        raise UsageError(
            "--output_path must not overwrite a checkpoint of a run. Received: "
            f"{args.output_path!r}, but {written!r} exists."
        )
    whole_file.check_writable(os.path.dirname(output_path))
    # This call raises an error if features.json is unreadable.
    feature_record.filenames(os.path.dirname(paths[-1]))
    for note in _check_same_model(paths):
        print(note)
    with path_lock.held(output_path, "--output_path must be written"):
        _average(paths, output_path, args.weights_dtype)


def _average(paths, output_path, dtype):
    command.load_tensorflow()
    import tensorflow as tf

    from ut_keras.checkpoints import checkpoint

    written = f"{output_path}-0"
    if os.path.exists(f"{written}.index") and not checkpoint.contains_only_weights(
        written, paths[0]
    ):
        raise UsageError(
            "--output_path must not overwrite a checkpoint of another model. Received: "
            f"{output_path!r}, but {written!r} exists."
        )
    # This check must run before the checkpoint is written. In a folder with a checkpoint,
    # `foreign_record` assumes that ut_keras has written all files, and returns None.
    foreign = output_folder.foreign_record(os.path.dirname(written))
    weights = average(paths)
    if dtype:
        weights = {name: cast_weight(dtype, name, value) for name, value in weights.items()}
    variables = {name: tf.Variable(value) for name, value in weights.items()}
    checkpoint_files.write(tf.train.Checkpoint(model=variables), written)
    print(f"Averaged {len(paths)} checkpoints:")
    for path in paths:
        print(f"  {path}")
    if any(map(checkpoint.contains_moving_average, paths)):
        print("note: the moving averages in the checkpoints are not used; see best/ in the run")
    print(
        f"Wrote {written} without the state of the optimizer. "
        f"To use it: --checkpoint_path={written}"
    )
    if not foreign and make_output_dir(os.path.dirname(paths[-1]), written):
        print(
            f"Copied the records of the run. To use them: --output_dir={os.path.dirname(written)}"
        )


def named_checkpoints(names: str, prefix: str) -> list[str]:
    """Return the paths of checkpoints from a text such as "a,b".

    Each path consists of the prefix and a name.

    Raises:
        UsageError: if a checkpoint does not exist, if a checkpoint is named twice, or if no
            checkpoint is named.
    """
    paths = [prefix + name.strip() for name in names.split(",") if name.strip()]
    paths = [os.path.expanduser(path.removesuffix(".index")) for path in paths]
    for path in paths:
        if not os.path.exists(f"{path}.index"):
            raise UsageError(
                "--checkpoints must name existing checkpoints, each with --prefix before it. "
                f"Received: {path!r}, but {path}.index does not exist."
            )
        if paths.count(path) > 1:
            raise UsageError(
                f"--checkpoints must name each checkpoint once. Received: {path!r} twice."
            )
    if not paths:
        raise UsageError(f"--checkpoints must name a checkpoint. Received: {names!r}.")
    return paths


def last_checkpoints(number: int, prefix: str) -> list[str]:
    """Return the newest `number` checkpoints of a folder, from oldest to newest.

    Raises:
        UsageError: if the folder has fewer than `number` checkpoints.
    """
    if number < 1:
        raise UsageError(
            "--checkpoints, or --num_last_checkpoints of at least 1, is required. "
            f"Received: --num_last_checkpoints={number}."
        )
    folder = prefix if os.path.isdir(prefix) else os.path.dirname(prefix)
    if not prefix or not checkpoint_files.exists(folder):
        raise UsageError(
            "--num_last_checkpoints requires a --prefix that is the folder of a run. Received: "
            f"{prefix!r}; the file {os.path.join(folder, 'checkpoint')!r} does not exist."
        )
    command.load_tensorflow()
    oldest_first = reversed(checkpoint_files.newest_first_of_run(folder))
    paths = [path for path in oldest_first if os.path.lexists(f"{path}.index")]
    if len(paths) < number:
        raise UsageError(
            f"--num_last_checkpoints must be at most {len(paths)}, the number of checkpoints in "
            f"{folder!r}. Received: {number}."
        )
    return paths[-number:]


def average(paths: Sequence[str]) -> dict[str, Any]:
    """Return the mean of each weight over several checkpoints.

    Returns:
        dict from name to array. An array has the dtype of the stored weight. The sums are computed
        in float64.

    Raises:
        CheckpointError: if a checkpoint cannot be read, was not written by ut_keras, or belongs to
            another model.
    """
    from ut_keras.checkpoints import checkpoint

    sums: dict[str, Any] = {}
    dtypes: dict[str, Any] = {}
    for path in paths:
        weights = checkpoint.read_weights(path)
        for name in sorted(weights.keys() | sums.keys()) if sums else ():
            here, there = (
                group[name].shape if name in group else "missing" for group in (weights, sums)
            )
            if here != there:
                raise checkpoint.CheckpointError(
                    "The checkpoints must be of the same model. "
                    f"Received: {name} is {there} in {paths[0]} and {here} in {path}."
                )
        for name, value in weights.items():
            sums[name] = sums.get(name, 0) + value.astype("float64")
            dtypes[name] = value.dtype
    return {name: (total / len(paths)).astype(dtypes[name]) for name, total in sums.items()}


def _check_same_model(paths):
    """Check that the checkpoints' folders have the same hparams and vocabularies.

    Checkpoints of two runs can have the same shapes, although the weights have different meanings.
    Folders without records are not checked.

    Returns:
        list with a note for each hparam that differs without changing the meaning of the weights.

    Raises:
        UsageError: if the checkpoints have different values of an hparam that changes what the
            model computes.
        DataError: if the vocabularies differ.
    """
    last = os.path.dirname(paths[-1])  # the records of this folder are copied
    features, hp = feature_record.load(last), _trained_hparams(last)
    notes = []
    others = {os.path.realpath(os.path.dirname(path)): path for path in paths[:-1]}
    for path in others.values():
        folder = os.path.dirname(path)
        if features is not None:
            feature_record.check_same_features(folder, features)
        other = _trained_hparams(folder)
        if hp is None or other is None:
            continue
        for name in hparam_changes.differing_names(hp, other, inference_only=True):
            there, here = (
                f"{name}={getattr(of, name)!r} in {where}"
                for of, where in ((other, path), (hp, paths[-1]))
            )
            if name not in _MAY_DIFFER:
                raise UsageError(
                    f"The checkpoints must be of the same model. Received: {there}, {here}."
                )
            notes.append(f"note: {there}, {here}. The hparams of the average have the last value.")
    return notes


def _trained_hparams(folder):
    """Return the hparams with which the checkpoints of a folder were trained, or None."""
    return run_directory.read_hparams(folder, run_json.read(folder))[1]


def cast_weight(dtype: Any, name: str, value: Any) -> Any:
    """Return a weight in a smaller dtype.

    Raises:
        UsageError: if a finite number is too large for the dtype.
    """
    import numpy as np

    with np.errstate(over="ignore"):
        small = value.astype(dtype)
    if np.isfinite(value).all() and not np.isfinite(small).all():
        raise UsageError(
            f"--weights_dtype={dtype} supports numbers up to {np.finfo(dtype).max:.0f}. "
            f"Received: {name} with {np.abs(value).max():g}."
        )
    return small


def make_output_dir(source: str, path: str) -> bool:
    """Make the folder of an averaged checkpoint usable as --output_dir, if possible.

    The function copies the records of the run and writes the file `checkpoint`. It does nothing if
    the folder already contains a run, because the new file `checkpoint` would name the average as
    the newest checkpoint of this run.

    Args:
        source: str. Folder of the run.
        path: str. Path of the averaged checkpoint.

    Returns:
        bool. Whether the folder can now be used as --output_dir.
    """
    folder = os.path.dirname(path)
    try:
        with output_folder.lock(folder):
            if _has_other_checkpoint(path) or output_folder.foreign_record(folder):
                return False
            for record in (*_RECORDS, *feature_record.filenames(source)):
                with contextlib.suppress(FileNotFoundError):
                    whole_file.copy(os.path.join(source, record), os.path.join(folder, record))
            checkpoint_files.record(folder, [path])
            return os.path.exists(os.path.join(folder, "hparams.json"))
    except path_lock.LockedError:  # a trainer has started to use this folder
        return False


def _has_other_checkpoint(path):
    """Return whether the folder of a checkpoint contains other checkpoints."""
    try:
        return checkpoint_files.newest(os.path.dirname(path)) not in (None, path)
    except checkpoint_files.CheckpointError:
        return True


if __name__ == "__main__":
    sys.exit(main())
