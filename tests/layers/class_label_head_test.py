import numpy as np

from tests.layers import layer_checks
from ut_keras.layers import class_label_head


def _without_training(layer, x, training=None):
    del training
    return layer(x)


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: class_label_head.ClassLabelHead(3, dtype=dtype),
        {"x": layer_checks.normal(2, 5, 4)},
        num_weights=2,
        call=_without_training,
        mixed_dtypes=("float32",),
    )


def test_matches_reference():
    head = class_label_head.ClassLabelHead(3)
    head.build((None, None, 4))
    layer_checks.shake(head)
    x = layer_checks.normal(2, 5, 4)
    kernel, bias = head.get_weights()
    np.testing.assert_allclose(head(x), x.sum(axis=1) / 5 @ kernel + bias, atol=1e-5)
