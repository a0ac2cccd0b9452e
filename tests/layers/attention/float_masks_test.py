import numpy as np
import pytest
import tensorflow as tf

from ut_keras.layers.attention import attention

X = np.random.RandomState(0).normal(size=[2, 3, 4]).astype("float32")
REAL = np.array([[True, True, False], [True, True, True]])


def _output(mask, jit_compile=False):
    tf.random.set_seed(0)
    layer = attention.MultiHeadAttention(2, 4)
    layer.build([None, None, 4])
    for weight in layer.weights:
        weight.assign(tf.random.stateless_normal(weight.shape, [1, 2]))
    call = tf.function(lambda x, mask: layer(x, mask=mask).output, jit_compile=jit_compile)
    return call(tf.constant(X), tf.constant(mask))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_attention_accepts_a_float_mask_of_0_and_1(jit_compile):
    found = _output(REAL.astype("float32"), jit_compile)
    np.testing.assert_allclose(found, _output(REAL), atol=1e-5)


def test_attention_rejects_a_mask_that_is_added_to_logits():
    with pytest.raises(tf.errors.InvalidArgumentError, match="1 at the positions"):
        _output(np.where(REAL, 0, -1e9).astype("float32"))


def test_attention_under_xla_returns_nan_for_a_mask_that_is_added_to_logits():
    assert np.isnan(_output(np.where(REAL, 0, -1e9).astype("float32"), jit_compile=True)).all()
