"""Batches without end, from datasets of one pass each, and the place in them.

The place is two numbers, the epoch and the batches of it that were handed out, so that a checkpoint
can hold it; a third stands for the order that they belong to. Going on from a place makes a dataset
anew and begins with the next batch, where the order is another with the next epoch.

Of `IndexedBatches`, which are all epochs, one iterator serves the whole run, and reads the next
epoch's first batches during the last ones of an epoch. Of datasets each epoch makes its own, and
the model waits for its first batch.
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
        make_epoch: function from the number of the epoch to a `tf.data.Dataset` of one pass over
            the data; the same number must give the same batches. Or to `IndexedBatches`: pass n of
            those of epoch 0 is epoch n, and no others are made.
        strategy: a `tf.distribute.Strategy`, which spreads each batch over its replicas.
    """

    def __init__(self, make_epoch: Callable[[int], Any], strategy: tf.distribute.Strategy) -> None:
        self._make_epoch = make_epoch
        self._strategy = strategy
        self._epoch = 0
        self._batch = 0
        with tf.device("CPU:0"):
            # The order of older checkpoints, and of datasets that do not tell, is 0.
            self.position = {
                name: tf.Variable(0, dtype=tf.int64, trainable=False)
                for name in ("epoch", "batch", "order")
            }
        self._batches: Any = None

    @functools.cached_property
    def element_spec(self) -> Any:
        """Shapes and types of a batch."""
        return self._remaining_batches().element_spec

    @functools.cached_property
    def _indexed_batches(self):
        """The `IndexedBatches` of all epochs; None where each makes a dataset."""
        first = self._make_epoch(0)
        return first if isinstance(first, IndexedBatches) else None

    @property
    def _order(self):
        return 0 if self._indexed_batches is None else self._indexed_batches.fingerprint

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._batches is None:
            self._batches = self._generate()
        return next(self._batches)

    def close(self) -> None:
        """Stops what reads ahead; the next batch is the one that would have come."""
        self._batches = None

    def write_position(self) -> None:
        """Puts the place into `position`, for a checkpoint."""
        self.position["epoch"].assign(self._epoch)
        self.position["batch"].assign(self._batch)
        self.position["order"].assign(self._order)

    def read_position(self) -> str | None:
        """Goes to the place that a checkpoint has put into `position`.

        Returns:
            str, what is to be said if that place is of another order; else None.
        """
        self._epoch = int(self.position["epoch"])
        self._batch = int(self.position["batch"])
        self.close()
        order = int(self.position["order"])
        if not order or order == self._order:
            return None
        self._epoch += 1
        self._batch = 0
        return (
            "The order of the batches differs from the order in the checkpoint, because the data, "
            "seed, batch size, number of replicas or lengths differ. "
            f"Resuming at the beginning of epoch {self._epoch}"
        )

    def _generate(self):
        while True:
            is_new = self._batch == 0
            with readable.errors():
                for batch in self._remaining_batches():
                    if (
                        self._indexed_batches is not None
                        and self._batch >= self._indexed_batches.num_batches
                    ):
                        self._epoch += 1
                        self._batch = 0
                    self._batch += 1
                    yield batch
            if is_new and self._batch == 0:
                raise EmptyDatasetError(
                    "The training data must have at least one batch. Received: no batch."
                )
            self._epoch += 1
            self._batch = 0

    def _remaining_batches(self):
        """The batches from the place on: of all epochs, or of this one."""
        if self._indexed_batches is not None:
            make = functools.partial(self._indexed_batches.onwards, self._epoch, self._batch)
            return distribution.distribute_parts(self._strategy, make)
        dataset = self._make_epoch(self._epoch)
        dataset = dataset.skip(self._batch) if self._batch else dataset
        return distribution.distribute(self._strategy, dataset)
