"""What a run leaves behind in numbers: TensorBoard's files and `metrics.jsonl`.

output_dir/events.out.…        training: losses, learning rate, speed, ponder times
output_dir/eval/events.out.…   evaluation, under T2T's tags
output_dir/metrics.jsonl       one JSON object per evaluation

What cannot be written, as on a full disk, is said and left out: training does not end for it.
"""

import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ut_keras.files import file_error, metrics_file


@dataclasses.dataclass(eq=False)
class Summaries:
    """Writes the numbers of a run."""

    output_dir: str
    problem_name: str = "problem"  # T2T's tags hold it: "metrics-PROBLEM/targets/accuracy"
    split: str = "dev"  # that is evaluated
    enabled: bool = True  # False writes nothing: of several workers one writes
    is_training_run: bool = True  # whether training goes by the evaluations

    def __post_init__(self) -> None:
        self._writers: dict[str, Any] = {}
        self._record_labels = {"problem": self.problem_name, "split": self.split}
        # What training goes by, as of `metrics_file.records`.
        self.record_filter = {**self._record_labels, **metrics_file.OF_TRAINING}
        if not self.is_training_run:
            self._record_labels["by"] = "evaluation"

    def rewind(self, last_step: int, drop_last_evaluation: bool = False) -> None:
        """Takes metrics.jsonl back to what it said of the steps up to `last_step`.

        Without that step's evaluation, if it comes again.

        A run that was killed has recorded evaluations after its newest checkpoint, which come
        again, and may have stopped in the middle of a line. What is left is what a run that was
        never stopped would have recorded. (TensorBoard by itself drops later steps that it has.)
        """

        def is_kept(record):
            comes_again = drop_last_evaluation and metrics_file.is_of(record, **self.record_filter)
            return record["step"] <= last_step - comes_again

        if self.enabled:
            with self._reporting_write_errors():
                metrics_file.keep(self.output_dir, is_kept)

    def is_evaluated(self, step: int, decoded: bool) -> bool:
        """Whether the evaluation of a step is recorded, and if `decoded` the free decoding too."""
        kinds = {
            any(name.startswith("decode/") for name in record)
            for record in metrics_file.records(self.output_dir, **self.record_filter)
            if record["step"] == step
        }
        return kinds >= ({False, True} if decoded else {False})

    def write_training(
        self, step: int, scalars: Mapping[str, float], ponder: Mapping[str, Any] | None = None
    ) -> None:
        """Writes what the recent updates say; `ponder` is stack name: (ponder_times, mask)."""
        if not self.enabled:
            return
        with self._reporting_write_errors(), self._writer("").as_default(step):
            _write_scalars(step, scalars)
            for stack, (times, mask) in (ponder or {}).items():
                real = np.asarray(times)[np.asarray(mask) > 0]
                tf.summary.histogram(f"ponder_times/{stack}", real)
            self._writer("").flush()

    def write_evaluation(self, step: int, results: Mapping[str, float], kind: str = "eval") -> None:
        """Writes an evaluation to TensorBoard's file in the folder `kind` and to metrics.jsonl."""
        if not self.enabled:
            return
        with self._reporting_write_errors(), self._writer(kind).as_default(step):
            _write_scalars(step, {self._tag(name): value for name, value in results.items()})
            self._writer(kind).flush()
        record = {"step": step, "time": round(time.time(), 3), **self._record_labels, **results}
        with self._reporting_write_errors():
            metrics_file.append(self.output_dir, record)

    def close(self) -> None:
        """Writes what is still to be written."""
        for writer in list(self._writers.values()):
            with self._reporting_write_errors():
                writer.close()
        self._writers = {}

    @contextlib.contextmanager
    def _reporting_write_errors(self):
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            # A writer that has failed once may fail for ever.
            self._writers = {}
            print(
                f"Results could not be recorded in {self.output_dir}: {file_error.line(error)}",
                flush=True,
            )

    def _writer(self, folder):
        if folder not in self._writers:
            path = os.path.join(self.output_dir, folder)
            self._writers[folder] = tf.summary.create_file_writer(path)
        return self._writers[folder]

    def _tag(self, name):
        if name.startswith("loss") or "/" in name or name == "ponder_time":
            return name
        return f"metrics-{self.problem_name}/targets/{name}"


def _write_scalars(step, scalars):
    """Writes numbers as TensorFlow 1 and T2T did, by the default writer.

    `tf.summary.scalar` writes tensors, which TensorBoard shows alike, but which
    `EventAccumulator.Scalars` does not find.
    """
    values = [
        tf.compat.v1.Summary.Value(tag=tag, simple_value=float(value))
        for tag, value in scalars.items()
    ]
    if values:
        summary = tf.compat.v1.Summary(value=values).SerializeToString()
        tf.summary.experimental.write_raw_pb(summary, step)
