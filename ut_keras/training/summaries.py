"""Records the results of a run in TensorBoard's files and in `metrics.jsonl`.

output_dir/events.out.…        training: losses, learning rate, speed, ponder times
output_dir/eval/events.out.…   evaluation, with T2T's tags
output_dir/metrics.jsonl       one JSON object per evaluation

If writing fails, for example on a full disk, this module prints a message and training continues.
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
    """Writes the results of a run."""

    output_dir: str
    problem_name: str = "problem"  # part of T2T's tags: "metrics-PROBLEM/targets/accuracy"
    split: str = "dev"  # the split that is evaluated
    enabled: bool = True  # whether this process writes; only the chief of several workers writes
    is_training_run: bool = True  # whether the evaluations belong to a training run

    def __post_init__(self) -> None:
        self._writers: dict[str, Any] = {}
        self._record_labels = {"problem": self.problem_name, "split": self.split}
        # Arguments of `metrics_file.records` that select the evaluations of training.
        self.record_filter = {**self._record_labels, **metrics_file.BY_TRAINING}
        if not self.is_training_run:
            self._record_labels["by"] = "evaluation"

    def rewind(self, last_step: int, drop_last_evaluation: bool = False) -> None:
        """Remove the records of steps after `last_step` from metrics.jsonl.

        A run that was killed may have recorded evaluations after its newest checkpoint, and may
        have left an incomplete line. After resuming, the run evaluates these steps again. This
        method makes the file equal to the file of an uninterrupted run. It does not change
        TensorBoard's files, because TensorBoard itself discards later steps when a run repeats a
        step.

        Args:
            last_step: int, the step of the checkpoint from which training resumes.
            drop_last_evaluation: bool. Whether to also remove the evaluation of `last_step`,
                because the run repeats this evaluation.
        """

        def is_kept(record):
            is_of_training = metrics_file.matches(record, **self.record_filter)
            if drop_last_evaluation and is_of_training:
                return record["step"] < last_step
            return record["step"] <= last_step

        if self.enabled:
            with self._reporting_write_errors():
                metrics_file.filter_records(self.output_dir, is_kept)

    def is_evaluated(self, step: int, decoded: bool) -> bool:
        """Return whether the evaluation of a step is recorded.

        If `decoded` is True, the results of decoding must also be recorded.
        """
        kinds = {
            any(name.startswith("decode/") for name in record)
            for record in metrics_file.records(self.output_dir, **self.record_filter)
            if record["step"] == step
        }
        return kinds >= ({False, True} if decoded else {False})

    def write_training(
        self, step: int, scalars: Mapping[str, float], ponder: Mapping[str, Any] | None = None
    ) -> None:
        """Write the averages of the recent updates to TensorBoard's file.

        Args:
            step: int.
            scalars: dict from tag to number.
            ponder: dict from the name of a stack to (ponder_times, mask). Histograms show these
                values. Optional.
        """
        if not self.enabled:
            return
        with self._reporting_write_errors(), self._writer("").as_default(step):
            _write_scalars(step, scalars)
            for stack, (times, mask) in (ponder or {}).items():
                real = np.asarray(times)[np.asarray(mask) > 0]
                tf.summary.histogram(f"ponder_times/{stack}", real)
            self._writer("").flush()

    def write_evaluation(self, step: int, results: Mapping[str, float], kind: str = "eval") -> None:
        """Write an evaluation to metrics.jsonl and to TensorBoard's file.

        TensorBoard's file is in the folder `kind`.
        """
        if not self.enabled:
            return
        with self._reporting_write_errors(), self._writer(kind).as_default(step):
            _write_scalars(step, {self._tag(name): value for name, value in results.items()})
            self._writer(kind).flush()
        record = {"step": step, "time": round(time.time(), 3), **self._record_labels, **results}
        with self._reporting_write_errors():
            metrics_file.append(self.output_dir, record)

    def close(self) -> None:
        """Write the remaining results and close the files."""
        for writer in list(self._writers.values()):
            with self._reporting_write_errors():
                writer.close()
        self._writers = {}

    @contextlib.contextmanager
    def _reporting_write_errors(self):
        """Return a context that prints an error, and then removes all writers."""
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            # A writer that has failed may never work again, so new writers are created later.
            self._writers = {}
            print(
                f"Results could not be recorded in {self.output_dir}: {file_error.one_line(error)}",
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
    """Write numbers in the format of TensorFlow 1 and T2T, with the default writer.

    `tf.summary.scalar` would write tensors. TensorBoard shows both formats in the same way, but
    `EventAccumulator.Scalars` does not find tensors.
    """
    values = [
        tf.compat.v1.Summary.Value(tag=tag, simple_value=float(value))
        for tag, value in scalars.items()
    ]
    if values:
        summary = tf.compat.v1.Summary(value=values).SerializeToString()
        tf.summary.experimental.write_raw_pb(summary, step)
