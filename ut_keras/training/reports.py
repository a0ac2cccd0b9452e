"""Reports of updates: the progress line and TensorBoard's training curves.

    reports.add(step, result, batch)   after each update
    reports.finish()                   waits until the results of the current report are shown

Reading results makes the caller wait for the device, so they are read only when a line or a record
is due. On a GPU or TPU, a thread reads them, and a later call shows them. Training continues in the
meantime, so the device always has work.
"""

import concurrent.futures
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ut_keras.training import progress as progress_lib
from ut_keras.training.train_step import StepResult


class _Report(NamedTuple):
    """Results to show or record as soon as they have been read from the device."""

    step: int  # the last update whose results are read
    is_shown: bool  # whether the progress line shows them
    is_logged: bool  # whether TensorBoard's file gets them
    is_checked: bool  # whether the number of ponder steps is checked
    reading: concurrent.futures.Future  # the future of `Reports._read`


@dataclasses.dataclass(eq=False)
class Reports:
    """Shows and records the results of updates at regular intervals."""

    progress: progress_lib.Progress
    summaries: Any  # `Summaries`
    log_every_steps: int  # number of updates between records
    reads_in_background: bool  # whether training continues while a thread reads results
    # Function of the results of some updates, see `Progress.receive`. It raises an error if
    # training must not continue.
    check: Callable[[list[tuple[int, dict[str, float]]]], None]
    optimizer: Any  # the records contain its learning rate
    curriculum: Any = None  # `Curriculum`; the records contain its length
    card_rate: Any = None  # `CardRate`, which counts the operations of a batch

    def __post_init__(self) -> None:
        self._reader = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._pending: _Report | None = None  # the report whose results are being read

    def add(self, step: int, result: StepResult, batch: Any) -> None:
        """Add the result of an update, and begin a report if one is due.

        Args:
            step: int, the number of the update.
            result: `StepResult`.
            batch: the batch of the update.
        """
        flops = self.card_rate.flops(batch) if self.card_rate else None
        self.progress.add(step, result, flops)
        self.finish(wait=False)  # the report of an earlier update
        is_logged = step % self.log_every_steps == 0
        is_checked = step == progress_lib.HALTING_CHECK_STEP
        is_shown = self.progress.is_due and self._pending is None
        if not (is_logged or is_checked or is_shown):
            return
        self.finish()  # only one report can be pending
        scalars, ponder_times = {}, {}
        if is_logged:
            scalars["learning_rate"] = keras.ops.convert_to_tensor(self.optimizer.learning_rate)
            if self.curriculum:
                scalars["curriculum_length"] = self.curriculum.length
            ponder_times = result.ponder
        reading = self._reader.submit(self._read, self.progress.take(), scalars, ponder_times)
        self._pending = _Report(step, is_shown, is_logged, is_checked, reading)
        self.finish(wait=not self.reads_in_background)

    def finish(self, wait: bool = True) -> None:
        """Show and record the results of the current report, if they were read.

        Args:
            wait: bool. Whether to wait until they were read.
        """
        report = self._pending
        if report is None or not (wait or report.reading.done()):
            return
        self._pending = None
        results, scalars, ponder_times = report.reading.result()
        self.check(self.progress.receive(results))
        if report.is_shown:
            self.progress.show(report.step)
        if report.is_logged:
            scalars = {**self.progress.averages(), **scalars}
            self.summaries.write_training(report.step, scalars, ponder_times)
        if report.is_checked:
            warning = progress_lib.halting_warning(self.progress.averages())
            if warning:
                self.progress.print_line(warning)

    def check_remaining(self) -> None:
        """Finish the current report, and check all results up to the last update."""
        self.finish()
        self.check(self.progress.fetch())

    def close(self) -> None:
        """Stop the thread. It may still finish the current report."""
        self._reader.shutdown(wait=False)

    def _read(self, taken, scalars, ponder_times):
        """Wait for the device, and return (results, scalars, ponder times) in host memory."""
        results = self.progress.read(*taken)
        scalars = {name: float(value) for name, value in scalars.items()}
        return results, scalars, tf.nest.map_structure(np.asarray, ponder_times)
