"""TensorBoard's profile of some updates: where the time goes, on the host and on the devices."""

import tensorflow as tf


class StepProfiler:
    """Records the updates `first` to `last`.

    Args:
        output_dir: str. TensorBoard finds the profile in its plugins/profile.
        steps: (first, last), ints, or None for nothing.
    """

    def __init__(self, output_dir, steps):
        self._output_dir = output_dir
        self._first, self._last = steps or (0, -1)
        self._is_on = False

    def before(self, step):
        """To be called before update number `step`."""
        if self._first <= step <= self._last and not self._is_on:
            tf.profiler.experimental.start(self._output_dir)
            self._is_on = True

    def after(self, step, result):
        """To be called after it, with a tensor of its results."""
        if self._is_on and step >= self._last:
            result.numpy()  # what a device is still at belongs to the profile
            self.stop()

    def stop(self):
        """Writes the profile, if one is being recorded."""
        if not self._is_on:
            return
        self._is_on = False
        tf.profiler.experimental.stop()
        print(f"Profile written: tensorboard --logdir={self._output_dir}", flush=True)
