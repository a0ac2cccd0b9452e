import numpy as np
import pytest
import tensorflow as tf

from ut_keras.ops import log_softmax

IDS = np.array([[0, 4, 2], [1, 1, 3]], "int32")


@pytest.mark.parametrize("spread", [1.0, 30.0, 300.0])
def test_log_softmax_of_ids_matches_definition(spread):
    """The results are accurate even if the softmax of a token is 0 or 1 in float32."""
    logits = spread * np.random.RandomState(1).normal(size=(2, 3, 5)).astype("float32")
    exact = logits.astype("float64")
    exact -= exact.max(-1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(-1, keepdims=True))
    expected = np.take_along_axis(exact, IDS[..., np.newaxis], axis=-1)[..., 0]
    found = log_softmax.of_ids(logits, tf.constant(IDS))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("wrong", [-1, 5])
def test_log_softmax_of_ids_rejects_ids_out_of_range(wrong, jit_compile):
    logits = tf.zeros([1, 2, 5])
    of_ids = tf.function(log_softmax.of_ids, jit_compile=jit_compile)
    if not jit_compile:
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{wrong} is not in"):
            of_ids(logits, tf.constant([[1, wrong]]))
        return
    found = of_ids(logits, tf.constant([[1, wrong]]))[0].numpy()
    assert found[0] == pytest.approx(-np.log(5)) and np.isnan(found[1])
