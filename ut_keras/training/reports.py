"""What is told of the updates: the progress line, TensorBoard's training curves, advice."""

import math
from collections.abc import Mapping
from typing import Any

import keras

from ut_keras.training import saving, train_step
from ut_keras.training.train_step import StepResult


class Reports(train_step.Hook):
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
                raise saving.NonFinite(f"loss={values['loss']} at step {step}")

    def _record(self, step, result):
        scalars = self._progress.averages()
        rate = keras.ops.convert_to_tensor(self._optimizer.learning_rate)
        scalars["learning_rate"] = float(rate)
        self._summaries.write_training(step, scalars, result.ponder)
        for line in self._advice.lines(step, scalars):
            self._progress.end_line()
            print(line, flush=True)


_AFTER_STEPS = 1000  # before that, neither speed nor ponder times have settled
_FEW_STEPS = 2.5
_LONG_WAIT = 0.3  # of the time
_BUSY = 0.1


class Advice:
    """Looks at the averages of a run; says each thing once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def lines(self, step: int, averages: Mapping[str, float]) -> list[str]:
        """What is new to say.

        Args:
            step: int.
            averages: those of `Progress`.

        Returns:
            list of str.
        """
        if step < _AFTER_STEPS:
            return []
        found = {"ponder": _ponder(averages), "input": _input(averages)}
        new = {name: line for name, line in found.items() if line and name not in self._said}
        self._said.update(new)
        return list(new.values())


def _ponder(averages):
    ponder = averages.get("ponder_time")
    if ponder is None or ponder >= _FEW_STEPS:
        return None
    return (
        f"Warning: positions ponder {ponder:.2f} steps on average, so most of the depth is never "
        "used. Begin with a lower halting probability: --hparams=act_halting_bias_init=-3.0, or a "
        "set whose name ends in _deepstart (T2T's bias of 1 halts after about 2 steps)."
    )


def _input(averages):
    waited = averages.get("input_wait", 0.0)
    # A device that is still at work when its results are asked for does not wait.
    if waited < _LONG_WAIT or averages.get("device_wait", 0.0) > _BUSY:
        return None
    return (
        f"Warning: {waited:.0%} of the time goes into waiting for the next batch: the input "
        "pipeline is the bottleneck. Put --data_dir on a fast disk, give the process more cores, "
        "or do more per update (a larger batch_size)."
    )
