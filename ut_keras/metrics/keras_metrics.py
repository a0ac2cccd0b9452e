"""The same metrics for `model.compile`: a (sum, count) function as a Keras metric."""

import keras

from ut_keras import metrics


@keras.saving.register_keras_serializable(package="ut_keras")
class SumOverCount(keras.metrics.Metric):
    """Adds up a metric function over batches.

    Args:
        name: str. T2T's name of the metric; see `metrics.names()`.
    """

    def __init__(self, name, **kwargs):
        super().__init__(name=name, **kwargs)
        self._function = metrics.get(name)
        self._sum = self.add_variable((), initializer="zeros", name="sum")
        self._count = self.add_variable((), initializer="zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        del sample_weight  # padding is told by the targets
        total, count = self._function(y_pred, y_true)
        self._sum.assign_add(total)
        self._count.assign_add(count)

    def result(self):
        return keras.ops.divide_no_nan(self._sum, self._count)


def default_metrics(class_labels):
    """What `compile()` without arguments measures."""
    names = ["accuracy"] if class_labels else ["accuracy", "accuracy_per_sequence"]
    return [SumOverCount(name) for name in names]
