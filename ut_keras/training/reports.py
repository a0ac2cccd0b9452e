"""What is told of the updates: the progress line, TensorBoard's training curves, advice."""

import math
from typing import Any

import keras

from ut_keras.training import hooks, non_finite
from ut_keras.training.advice import Advice
from ut_keras.training.train_step import StepResult


class Reports(hooks.Hook):
    """Reads the results of updates when a line or a record is due, and no sooner.

    Args:
        progress: `Progress`.
        summaries: `Summaries`.
        optimizer: a Keras optimizer, for the learning rate.
        every_steps: int. Updates from one record to the next.
    """

    def __init__(
        self, progress: Any, summaries: Any, optimizer: keras.optimizers.Optimizer, every_steps: int
    ) -> None:
        self._progress = progress
        self._summaries = summaries
        self._optimizer = optimizer
        self._every_steps = every_steps
        self._advice = Advice()

    def begins(self, step: int) -> None:
        self._progress.restart_clock()

    def after_update(self, step: int, result: StepResult) -> None:
        self._progress.add(step, result)
        if self._progress.is_due:
            self._read()
            self._progress.show(step)
        if step % self._every_steps == 0:
            self._read()
            self._record(step, result)

    def before_save(self, step: int) -> None:
        self._read()

    def ends(self) -> None:
        self._progress.end_line()

    def _read(self):
        for step, values in self._progress.fetch():
            if not math.isfinite(values["loss"]):
                raise non_finite.NonFinite(f"loss={values['loss']} at step {step}")

    def _record(self, step, result):
        scalars = self._progress.averages()
        rate = keras.ops.convert_to_tensor(self._optimizer.learning_rate)
        scalars["learning_rate"] = float(rate)
        self._summaries.write_training(step, scalars, result.ponder)
        for line in self._advice.lines(step, scalars):
            self._progress.end_line()
            print(line, flush=True)
