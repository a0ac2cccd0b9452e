"""An endless stream of batches, whose position a checkpoint stores.

The position consists of three numbers: the epoch, the number of batches of this epoch that were
used, and a number that identifies the order of the batches. To resume, `Epochs` makes the dataset
again and starts with the next batch. If the order of the batches has changed, `Epochs` starts with
the next epoch.

`IndexedBatches` represent all epochs. With `IndexedBatches`, one iterator serves the complete run.
This iterator reads the first batches of the next epoch during training on the last batches of the
current epoch. With one `tf.data.Dataset` per epoch, the model must wait for the first batch of each
epoch.
"""

import functools
from collections.abc import Callable
from typing import Any, Self

import tensorflow as tf

from ut_keras.data.reading import readable
from ut_keras.data.reading.indexed_batches import IndexedBatches
from ut_keras.training import distribution
from ut_keras.training.evaluation import EmptyDatasetError


class Epochs:
    """An endless iterator over global batches.

    Args:
        make_epoch: function that takes the number of an epoch and returns a `tf.data.Dataset` with
            one pass over the data. For the same number, the function must always return the same
            batches. For epoch 0, the function may return `IndexedBatches` instead. These also
            provide all later epochs, so the function is not called again.
        strategy: a `tf.distribute.Strategy`, which splits each batch between its replicas.
    """

    def __init__(self, make_epoch: Callable[[int], Any], strategy: tf.distribute.Strategy) -> None:
        self._make_epoch = make_epoch
        self._strategy = strategy
        self._epoch = 0
        self._num_used = 0  # the number of batches of this epoch that were used
        with tf.device("CPU:0"):
            # The value 0 means that the order is unknown. The order is unknown for older
            # checkpoints and for plain datasets.
            self.position = {
                name: tf.Variable(0, dtype=tf.int64, trainable=False)
                for name in ("epoch", "batch", "order")
            }
        self._generator: Any = None  # the result of `_generate`, which reads ahead
        self._longest: int | None = None  # the limit of `limit_length`
        self._limited_batches: IndexedBatches | None = None  # made when they are first read

    @functools.cached_property
    def element_spec(self) -> Any:
        """Shapes and types of a batch."""
        return self._remaining_batches().element_spec

    @functools.cached_property
    def _all_batches(self):
        """The `IndexedBatches` of all epochs, or None if each epoch has its own dataset."""
        first = self._make_epoch(0)
        return first if isinstance(first, IndexedBatches) else None

    @property
    def _indexed_batches(self):
        """The `IndexedBatches` of the examples within the length limit.

        It is None if every epoch has a separate dataset.
        """
        if self._longest is None:
            return self._all_batches
        if self._limited_batches is None:
            self._limited_batches = self._all_batches.up_to(self._longest)
        return self._limited_batches

    def limit_length(self, longest: int) -> None:
        """Skip examples that are longer than `longest` from now on.

        If an epoch has begun, the next epoch begins. This method requires `IndexedBatches` with at
        least one example that is not longer than `longest`.
        """
        self.close()
        self._longest = longest
        self._limited_batches = None
        if self._num_used:
            self._begin_next_epoch()

    @property
    def _order(self):
        return 0 if self._indexed_batches is None else self._indexed_batches.fingerprint

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._generator is None:
            self._generator = self._generate()
        return next(self._generator)

    def close(self) -> None:
        """Stop reading ahead.

        The iterator later continues with the batch after the last used batch.
        """
        generator, self._generator = self._generator, None
        if generator is not None:
            # Without this call, Python would close the generator when it deletes the generator.
            # Python would then ignore an exception of a signal, and print a stack trace.
            generator.close()

    def write_position(self) -> None:
        """Write the current position to `position`, so that a checkpoint can contain it."""
        self.position["epoch"].assign(self._epoch)
        self.position["batch"].assign(self._num_used)
        self.position["order"].assign(self._order)

    def read_position(self) -> str | None:
        """Continue at the position that was restored to `position` from a checkpoint.

        Returns:
            str, a message for the user if the order of the batches has changed; otherwise None.
        """
        self._epoch = int(self.position["epoch"])
        self._num_used = int(self.position["batch"])
        self.close()
        order = int(self.position["order"])
        if not order or order == self._order:
            return None
        self._begin_next_epoch()
        return (
            "The order of the batches differs from the order in the checkpoint, because the data, "
            "seed, batch size, number of replicas or lengths differ. "
            f"Resuming at the beginning of epoch {self._epoch}"
        )

    def _generate(self):
        """Yield the batches of this epoch and of all later epochs, and count them."""
        while True:
            is_new = self._num_used == 0
            with readable.errors():
                for batch in self._remaining_batches():
                    if self._is_end_of_epoch():
                        self._begin_next_epoch()
                    self._num_used += 1
                    yield batch
            if is_new and self._num_used == 0:
                raise EmptyDatasetError(
                    "The training data must have at least one batch. Received: no batch."
                )
            self._begin_next_epoch()

    def _is_end_of_epoch(self):
        """Return whether `IndexedBatches` have no further batch in this epoch."""
        batches = self._indexed_batches
        return batches is not None and self._num_used >= batches.num_batches

    def _begin_next_epoch(self):
        self._epoch += 1
        self._num_used = 0

    def _remaining_batches(self):
        """Return the batches after the current position.

        With `IndexedBatches`, the result includes all later epochs. Otherwise it has only the
        remaining batches of this epoch.
        """
        if self._indexed_batches is not None:
            make = functools.partial(
                self._indexed_batches.batches_from, self._epoch, self._num_used
            )
            return distribution.distribute_parts(self._strategy, make)
        dataset = self._make_epoch(self._epoch)
        dataset = dataset.skip(self._num_used) if self._num_used else dataset
        return distribution.distribute(self._strategy, dataset)
