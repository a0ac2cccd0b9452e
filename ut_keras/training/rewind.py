"""Takes the records of a run back to the step that it goes on from.

A run that was killed has recorded steps after its newest checkpoint, which come again, and may have
stopped in the middle of a line. What is left of TensorBoard's files and of `metrics.jsonl` is what
a run that was never stopped would have recorded up to that step. Files are replaced as a whole.
"""

import errno
import glob
import os

import tensorflow as tf

from ut_keras import json_file, whole_file

METRICS = "metrics.jsonl"
TEMPORARY = "rewind.incomplete"  # TensorBoard would take names with "tfevents" in them for its own


def rewind(output_dir, step, step_is_evaluated):
    """Removes the records of later steps and torn ends.

    Args:
        output_dir: str.
        step: int, the last step to keep.
        step_is_evaluated: bool. Whether to keep the evaluations of `step` itself.
    """
    evaluated = step if step_is_evaluated else step - 1
    _rewind_lines(os.path.join(output_dir, METRICS), evaluated)
    for folder, last in (("", step), ("eval", evaluated), ("decode", evaluated)):
        for path in sorted(glob.glob(os.path.join(output_dir, folder, "events.out.tfevents.*"))):
            _rewind_events(path, last)


def is_evaluated(output_dir, step, split, decoded):
    """Whether the evaluation of a step is recorded, and if `decoded` the free decoding too."""
    records = [
        record
        for line in _lines(os.path.join(output_dir, METRICS))
        if (record := _parse(line)) and record["step"] == step and record.get("split") == split
    ]
    kinds = {any(name.startswith("decode/") for name in record) for record in records}
    return kinds >= ({False, True} if decoded else {False})


def append_line(path, line):
    """Appends a line, after cutting off one that was not written to its end."""
    # Without a buffer, which would keep what a full disk refused and write it later.
    with open(path, "a+b", buffering=0) as file:
        file.seek(0)
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            file.truncate(whole)
        data = line.encode() + b"\n"
        if file.write(data) != len(data):
            file.truncate(whole)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        os.fsync(file.fileno())


def _rewind_lines(path, last):
    lines = _lines(path)
    kept = [line for line in lines if (record := _parse(line)) and record["step"] <= last]
    if kept != lines:
        _replace(path, lambda temporary: _write_lines(temporary, kept))


def _lines(path):
    """The lines of a file as bytes, a torn one at the end included."""
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        return file.read().splitlines(keepends=True)


def _parse(line):
    """The record of a whole line, else None."""
    if not line.endswith(b"\n"):
        return None
    record = json_file.parse_line(line)
    return record if record and isinstance(record.get("step"), int) else None


def _write_lines(path, lines):
    with open(path, "wb") as file:
        file.writelines(lines)


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
        _replace(path, lambda temporary: _write_records(temporary, kept))


def _replace(path, write):
    temporary = os.path.join(os.path.dirname(path), TEMPORARY)
    write(temporary)
    whole_file.put([(temporary, path)])


def _write_records(path, records):
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
