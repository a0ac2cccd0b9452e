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


@pytest.mark.parametrize("floatx", ["float16", "bfloat16"])
def test_metrics_count_all_batches_with_a_short_floatx(floatx):
    """In float16, 2048 + 1 is 2048. In bfloat16, 256 + 1 is 256."""
    keras.config.set_floatx(floatx)
    try:
        accuracy, loss = keras_metrics.SumOverCount("accuracy"), keras_metrics.LossOfParts()
    finally:
        keras.config.set_floatx("float32")
    for length, predicted in ((2048, 1), *[(1, 2)] * 8):
        targets = np.ones((1, length), "int32")
        accuracy.update_state(targets, np.repeat(_logits([[predicted]]), length, axis=1))
    for numerator, denominator in ((2048.0, 2048.0), *[(2.0, 1.0)] * 8):
        loss.add([(numerator, denominator)])
    assert float(accuracy.result()) == pytest.approx(2048 / (2048 + 8))
    assert float(loss.result()) == pytest.approx((2048 + 16) / (2048 + 8))
