"""TensorBoard's profile of some updates: where the time goes, on the host and on the devices."""

from typing import Any

import tensorflow as tf

from ut_keras.training import hooks
from ut_keras.training.train_step import StepResult


class StepProfiler(hooks.Hook):
    """Records the updates `first` to `last`.

    Args:
        output_dir: str. TensorBoard finds the profile in its plugins/profile.
        steps: (first, last), ints, or None for nothing.
    """

    def __init__(self, output_dir: str, steps: Any) -> None:
        self._output_dir = output_dir
        self._first: int
        self._last: int
        self._first, self._last = steps or (0, -1)
        self._is_on = False

    def before_update(self, step: int) -> None:
        if self._first <= step <= self._last and not self._is_on:
            tf.profiler.experimental.start(self._output_dir)
            self._is_on = True

    def after_update(self, step: int, result: StepResult) -> None:
        if self._is_on and step >= self._last:
            result.loss.numpy()  # what a device is still at belongs to the profile
            self.ends()

    def ends(self) -> None:
        if not self._is_on:
            return
        self._is_on = False
        tf.profiler.experimental.stop()
        print(f"Profile written: tensorboard --logdir={self._output_dir}", flush=True)
