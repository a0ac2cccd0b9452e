"""The wish to stop, which several workers must follow after the same update."""

import tensorflow as tf

from ut_keras import interruption
from ut_keras.training import distribution

_EVERY_STEPS = 10  # workers ask each other for signals


class AgreedStop(interruption.StopRequest):
    """A `StopRequest` that knows of other workers.

    Args:
        strategy: a `tf.distribute.Strategy`.
        waits: as of `StopRequest`; several workers always wait, for they stop together.
    """

    def __init__(self, strategy: tf.distribute.Strategy, waits: bool = True) -> None:
        self._strategy = strategy
        self._alone = distribution.num_workers(strategy) == 1
        super().__init__(waits or not self._alone)

    def is_due(self, step: int) -> bool:
        """Whether to stop after update number `step`."""
        if self._alone:
            return self.requested
        on_grid = step % _EVERY_STEPS == 0
        return on_grid and distribution.any_worker(self._strategy, self.requested)

    def leaves_evaluation(self) -> bool:
        """Whether to leave an evaluation, which several workers can only do together."""
        return self._alone and self.requested
