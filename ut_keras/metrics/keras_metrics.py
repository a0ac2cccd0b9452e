"""T2T's metrics and the loss as Keras metrics for `model.compile`."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import metrics
from ut_keras.files import metrics_file

# The largest number of terms of a loss. The models of ut_keras have fewer terms:
#
# - one term for the targets,
# - for each of the two stacks, one term for the ponder cost and one for the fixed-point loss,
# - one term for the confidence of `act_type=q_halt`,
# - one term for the auxiliary losses of all blocks,
# - one term for the losses that the user's layers add.
#
# A user's model that overrides `loss_terms` can have further terms.
_MAX_TERMS = 16
# With `keras.config.set_floatx("bfloat16")`, Keras' default dtype of sums would ignore most batches
# of a large dataset.
_DTYPE = "float32"


@keras.saving.register_keras_serializable(package="ut_keras")
class SumOverCount(keras.metrics.Metric):
    """Sums a metric of `metrics.names()` over batches and divides it by its count.

        metric = SumOverCount("accuracy")
        metric.update_state(np.array([[1, 2, 0]]), np.eye(3)[[[1, 1, 1]]])
        metric.result()                                     # 0.5: one of two targets is correct

    Args:
        name: str, the name of the metric.
        **kwargs: the arguments of `keras.metrics.Metric`.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._function = metrics.get(name)
        # Keras' callbacks read this attribute.
        self._direction = "down" if metrics_file.is_less_better(name) else "up"
        self._sum = self.add_variable((), initializer="zeros", dtype=_DTYPE, name="sum")
        self._count = self.add_variable((), initializer="zeros", dtype=_DTYPE, name="count")

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
    """The loss over batches, as a sum of terms.

    For each term, the metric sums the numerators and the denominators over the batches before the
    division. Therefore every token has the same weight, regardless of its batch.
    """

    def __init__(self, name: str = "loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        shape = (_MAX_TERMS,)
        self._numerators = self.add_variable(
            shape, initializer="zeros", dtype=_DTYPE, name="numerators"
        )
        self._denominators = self.add_variable(
            shape, initializer="zeros", dtype=_DTYPE, name="denominators"
        )

    def add(self, terms: Any) -> None:
        """Add the terms of a batch.

        Args:
            terms: list of (numerator, denominator). Its length must be the same for all batches.
        """
        terms = terms + [(0.0, 0.0)] * (_MAX_TERMS - len(terms))
        numerators, denominators = zip(*terms, strict=True)
        self._numerators.assign_add(tf.stack(numerators))
        self._denominators.assign_add(tf.stack(denominators))

    def update_state(self, values: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Do nothing, because the metric reads terms from `add`, not Keras' mean."""

    def result(self) -> tf.Tensor:
        return keras.ops.sum(keras.ops.divide_no_nan(self._numerators, self._denominators))


def default_metrics(class_labels: bool) -> list[keras.metrics.Metric]:
    """Return the metrics that `compile()` uses by default."""
    names = ["accuracy"] if class_labels else ["accuracy", "accuracy_per_sequence"]
    return [SumOverCount(name) for name in names]
