"""The same metrics for `model.compile`: sums over counts as Keras metrics."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import metrics
from ut_keras.files import metrics_file

# Of a loss: of the targets, of two stacks that ponder, what parts of blocks cost and layers add.
_MAX_TERMS = 5


@keras.saving.register_keras_serializable(package="ut_keras")
class SumOverCount(keras.metrics.Metric):
    """Adds up a metric function, by its name in `metrics.names()`, over batches."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._function = metrics.get(name)
        # Keras' callbacks read it.
        self._direction = "down" if metrics_file.is_less_better(name) else "up"
        self._sum = self.add_variable((), initializer="zeros", name="sum")
        self._count = self.add_variable((), initializer="zeros", name="count")

    def update_state(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> None:
        weights = () if sample_weight is None else (sample_weight,)
        total, count = self._function(y_pred, y_true, *weights)
        self._sum.assign_add(total)
        self._count.assign_add(count)

    def result(self) -> tf.Tensor:
        return keras.ops.divide_no_nan(self._sum, self._count)


class LossOfParts(keras.metrics.Metric):
    """The loss over batches: the sum of its parts, each the sum over batches of what it adds up
    over that of what this is divided by. So a token weighs the same in whatever batch it is.
    """

    def __init__(self, name: str = "loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._numerators = self.add_variable((_MAX_TERMS,), initializer="zeros", name="numerators")
        self._denominators = self.add_variable(
            (_MAX_TERMS,), initializer="zeros", name="denominators"
        )

    def add(self, terms: Any) -> None:
        """Adds those of a batch: a list of (numerator, denominator), always of one length."""
        terms = terms + [(0.0, 0.0)] * (_MAX_TERMS - len(terms))
        numerators, denominators = zip(*terms, strict=True)
        self._numerators.assign_add(tf.stack(numerators))
        self._denominators.assign_add(tf.stack(denominators))

    def update_state(self, values: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Keras tells its tracker a mean; what is reported is `add`ed."""

    def result(self) -> tf.Tensor:
        return keras.ops.sum(keras.ops.divide_no_nan(self._numerators, self._denominators))


def default_metrics(class_labels: bool) -> list[keras.metrics.Metric]:
    """What `compile()` without arguments measures."""
    names = ["accuracy"] if class_labels else ["accuracy", "accuracy_per_sequence"]
    return [SumOverCount(name) for name in names]
