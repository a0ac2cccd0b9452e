"""Takes the records of a run back to the step that it goes on from.

A run that was killed has recorded steps after its newest checkpoint, which come again, and may have
stopped in the middle of a line. What is left of TensorBoard's files and of `metrics.jsonl` is what
a run that was never stopped would have recorded up to that step. Files are replaced as a whole.
"""

import glob
import os

import tensorflow as tf

from ut_keras import metrics_file, whole_file

SUFFIX = ".v2.ut_keras"  # of our event files, by which those of others are left alone


def rewind(output_dir: str, step: int, step_is_evaluated: bool) -> None:
    """Removes the records of later steps and torn ends.

    Args:
        output_dir: str.
        step: int, the last step to keep.
        step_is_evaluated: bool. Whether to keep the evaluations of `step` itself.
    """
    evaluated = step if step_is_evaluated else step - 1
    metrics_file.keep(output_dir, lambda recorded: recorded <= evaluated)
    for folder, last in (("", step), ("eval", evaluated), ("decode", evaluated)):
        for path in sorted(glob.glob(os.path.join(glob.escape(output_dir), folder, f"*{SUFFIX}"))):
            _rewind_events(path, last)


def is_evaluated(output_dir: str, step: int, split: str, decoded: bool) -> bool:
    """Whether the evaluation of a step is recorded, and if `decoded` the free decoding too."""
    records = [
        record
        for record in metrics_file.records(output_dir)
        if record["step"] == step and record.get("split") == split
    ]
    kinds = {any(name.startswith("decode/") for name in record) for record in records}
    return kinds >= ({False, True} if decoded else {False})


def _rewind_events(path, last):
    kept, is_changed = [], False
    try:
        for serialized in tf.data.TFRecordDataset(path).as_numpy_iterator():
            if tf.compat.v1.Event.FromString(serialized).step <= last:
                kept.append(serialized)
            else:
                is_changed = True
    except tf.errors.OpError:
        is_changed = True
    if is_changed:
        with whole_file.folder(path) as temporary:
            # TensorBoard would take names with "tfevents" in them for its own.
            whole = os.path.join(temporary, "whole")
            with tf.io.TFRecordWriter(whole) as writer:
                for serialized in kept:
                    writer.write(serialized)
            whole_file.put([(whole, path)])
