import keras
import numpy as np
import pytest

from ut_keras import registry
from ut_keras.metrics import keras_metrics

_TARGETS = np.array([[3, 1, 0], [2, 4, 1]])


def _logits(predictions):
    return np.eye(6, dtype="float32")[np.array(predictions)]


def test_metric_sums_over_batches():
    metric = keras_metrics.SumOverCount("accuracy")
    metric.update_state(_TARGETS, _logits([[3, 1, 5], [2, 4, 1]]))
    metric.update_state(_TARGETS[:1], _logits([[5, 5, 5]]))
    assert float(metric.result()) == pytest.approx(5 / 7)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_default_metrics():
    assert [m.name for m in keras_metrics.default_metrics(class_labels=True)] == ["accuracy"]
    names = [m.name for m in keras_metrics.default_metrics(class_labels=False)]
    assert names == ["accuracy", "accuracy_per_sequence"]


def test_config_round_trip():
    metric = keras_metrics.SumOverCount("accuracy_top5")
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(metric))
    assert restored.get_config() == metric.get_config()


def test_unknown_name_lists_the_nearest():
    with pytest.raises(registry.UnknownNameError, match="accuracy"):
        keras_metrics.SumOverCount("acuracy")
