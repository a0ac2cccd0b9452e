import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.basic import class_label_head


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


@pytest.mark.parametrize(
    ("pooling", "read"),
    [("masked_mean", lambda rows: rows.mean(axis=0)), ("last", lambda rows: rows[-1])],
)
def test_pooling_without_padding_mask_reads_all_positions(pooling, read):
    head = class_label_head.ClassLabelHead(3, pooling=pooling)
    x = layer_checks.normal(3, 5, 4)
    mask = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 0, 0, 0, 0]], bool)
    expected = [read(x[0]), read(x[1][mask[1]]), np.zeros(4)]
    np.testing.assert_allclose(head.pool(x, mask), expected, atol=1e-6)
    np.testing.assert_allclose(head.pool(x), [read(rows) for rows in x], atol=1e-6)
    clone = class_label_head.ClassLabelHead.from_config(head.get_config())
    np.testing.assert_allclose(clone.pool(x, mask), expected, atol=1e-6)


def test_class_label_head_rejects_unknown_pooling():
    with pytest.raises(ValueError, match="pooling must be one of .*Received: 'first'"):
        class_label_head.ClassLabelHead(3, pooling="first")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("pooling", ["mean", "masked_mean"])
def test_pooling_of_long_sequences_is_exact_in_16_bits(pooling, dtype):
    x = tf.constant(np.tile([1.0, 20.0, -1.0, 3.0], (2, 5000, 1)), dtype)
    mask = tf.sequence_mask([5000, 4001], 5000)
    found = class_label_head.pool(x, pooling, mask)
    np.testing.assert_array_equal(found.numpy().astype("float32"), [[1.0, 20.0, -1.0, 3.0]] * 2)
