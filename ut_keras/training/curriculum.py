"""A curriculum of lengths: training starts with short examples.

Training adds longer examples in steps.

    curriculum = Curriculum(CurriculumSettings(start_length=5), epoch, strategy)
    curriculum.add(result)     call after each update; returns a message if the length increased
    curriculum.length          the current maximum length of the training examples

The length increases when the accuracy on the newest lengths reaches a threshold. The newest lengths
are the lengths that the previous maximum excluded. A checkpoint contains the complete state of the
curriculum. So in a resumed run, the length increases after the same updates as in an uninterrupted
run.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from ut_keras.data.reading import indexed_batches
from ut_keras.errors import DataError
from ut_keras.metrics import weights as weights_lib

# The names and types of the variables of `Curriculum.position`.
_POSITION_TYPES = {
    "curriculum_length": tf.int64,
    "curriculum_previous": tf.int64,
    "curriculum_updates": tf.int64,
    "curriculum_correct": tf.float64,
    "curriculum_sequences": tf.float64,
}


@dataclasses.dataclass(frozen=True)
class CurriculumSettings:
    """The settings of a curriculum: when and by how much the length increases.

    A length includes EOS, like the hparam `max_length`.
    """

    start_length: int  # the length at the start, at least 1
    length_step: int = 1  # the minimum increase
    # The length increases if at least this fraction of the newest sequences is correct.
    accuracy: float = 0.95
    updates: int = 100  # number of updates over which the accuracy is measured


def check(settings: CurriculumSettings, epoch: Any) -> np.ndarray:
    """Check that a curriculum is possible with the training data.

    Args:
        settings: `CurriculumSettings`.
        epoch: `IndexedBatches`. Any other dataset raises an error.

    Returns:
        int array, the lengths of the examples.

    Raises:
        DataError: if all examples are longer than the start length, if `epoch` is not
            `IndexedBatches`, or if it has a mixture of problems.
    """
    if not isinstance(epoch, indexed_batches.IndexedBatches):
        raise DataError(
            "A curriculum of lengths requires data that Problem.dataset reads. "
            f"Received: a {type(epoch).__name__}."
        )
    lengths = epoch.order.lengths
    if settings.start_length < lengths.min():
        raise DataError(
            "curriculum_start_length must be at least the length of the shortest example, "
            f"{lengths.min()}. Received: {settings.start_length}."
        )
    epoch.order.up_to(settings.start_length)
    return lengths


class Curriculum:
    """The state of a curriculum in one run.

    Args:
        settings: `CurriculumSettings`.
        epoch: `IndexedBatches`, the training data.
        strategy: the `tf.distribute.Strategy` of the run.

    Attributes:
        length: int. Training uses the examples of at most this length.
        position: dict from name to `tf.Variable`, the state that a checkpoint contains.

    Raises:
        DataError: in the same cases as `check`.
    """

    def __init__(
        self, settings: CurriculumSettings, epoch: Any, strategy: tf.distribute.Strategy
    ) -> None:
        self._settings = settings
        self._lengths = np.unique(check(settings, epoch))
        self.length = settings.start_length
        self._previous = 0  # the length before the last increase
        # Updates since the accuracy was last measured or the length last increased.
        self._updates = 0
        # Counts of sequences with the newest lengths in these updates.
        self._correct = self._sequences = 0.0
        self._pending: list[Any] = []
        with tf.device("CPU:0"):
            self.position = {
                name: tf.Variable(0, dtype=dtype, trainable=False)
                for name, dtype in _POSITION_TYPES.items()
            }
        with strategy.scope():  # the update reads this variable in every replica
            self._longest_old = tf.Variable(
                0,
                dtype=tf.int64,
                trainable=False,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )
        self.write()

    @property
    def is_finished(self) -> bool:
        """Whether training uses all examples."""
        return self.length >= self._lengths[-1]

    # The update calls this method on each replica.

    def newest_weights(self, features: Any, targets: tf.Tensor, *weights: Any) -> tf.Tensor:
        """Return the weights of the targets, which are 0 for examples of older lengths.

        Args:
            features: dict of int32 [B, length, ...].
            targets: int [B, T], or [B] or [B, 1] for classes.
            weights: at most one tensor, the weights of the targets.

        Returns:
            float32 [B, 1] or [B, T].
        """
        lengths = [_row_lengths(ids) for ids in (*features.values(), targets) if len(ids.shape) > 1]
        longest = tf.reduce_max(tf.stack(lengths), axis=0)
        is_newest = tf.cast(longest > self._longest_old, tf.float32)[:, tf.newaxis]
        return is_newest * weights_lib.as_matrix(weights[0]) if weights else is_newest

    # The train loop calls these methods.

    def add(self, result: Any) -> str | None:
        """Add the `StepResult` of an update, and increase the length if this is due.

        Returns:
            str, a message if the length increased; otherwise None.
        """
        if self.is_finished:
            return None
        self._pending.append((result.newest_correct, result.newest_sequences))
        self._updates += 1
        if self._updates < self._settings.updates:
            return None
        self._read_pending()
        if not self._sequences:  # no batch had an example of the newest lengths
            return None
        accuracy = self._correct / self._sequences
        self._updates, self._correct, self._sequences = 0, 0.0, 0.0
        if accuracy < self._settings.accuracy:
            return None
        old = self.length
        # The next larger length that at least one example has.
        next_length = self._lengths[self._lengths > old][0]
        self._previous = old
        self.length = max(old + self._settings.length_step, int(next_length))
        self._longest_old.assign(old)
        return (
            f"Curriculum: {accuracy:.1%} of the sequences of the newest lengths are correct. "
            f"Training continues with lengths up to {self.length} instead of {old}."
        )

    def write(self) -> None:
        """Store the state in `position`, so that a checkpoint can contain it."""
        self._read_pending()
        self.position["curriculum_length"].assign(self.length)
        self.position["curriculum_previous"].assign(self._previous)
        self.position["curriculum_updates"].assign(self._updates)
        self.position["curriculum_correct"].assign(self._correct)
        self.position["curriculum_sequences"].assign(self._sequences)

    def read(self) -> None:
        """Continue with the state that a checkpoint has restored to `position`."""
        self.length = int(self.position["curriculum_length"])
        self._previous = int(self.position["curriculum_previous"])
        self._updates = int(self.position["curriculum_updates"])
        self._correct = float(self.position["curriculum_correct"])
        self._sequences = float(self.position["curriculum_sequences"])
        self._pending = []
        self._longest_old.assign(self._previous)

    def _read_pending(self):
        for correct, sequences in self._pending:
            self._correct += float(correct)
            self._sequences += float(sequences)
        self._pending = []


def _row_lengths(ids):
    """Return the number of positions of each example up to its last id, int64 [B]."""
    real = tf.convert_to_tensor(ids) != 0
    while len(real.shape) > 2:  # the last axis holds the words of a sentence
        real = tf.reduce_any(real, axis=-1)
    ends = tf.range(1, tf.shape(real, tf.int64)[1] + 1)
    return tf.reduce_max(tf.where(real, ends, 0), axis=1)
