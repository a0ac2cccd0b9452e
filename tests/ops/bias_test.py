import numpy as np
import pytest
import tensorflow as tf

from ut_keras.ops import bias, devices


def _gradients(x, vector, upstream):
    with tf.GradientTape() as tape:
        tape.watch([x, vector])
        y = bias.add(x, vector)
    return y, *tape.gradient(y, [x, vector], upstream)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("shape", [(6, 5), (2, 3, 5), (0, 5)])
def test_form_for_gpus_equals_bias_add(shape, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    tensors = [
        tf.constant(rng.integers(-9, 9, size).astype("float32"), dtype)
        for size in (shape, (5,), shape)
    ]
    found = []
    for has_gpu in (False, True):
        monkeypatch.setattr(devices, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        found.append([part.numpy().astype("float32") for part in _gradients(*tensors)])
        traced = tf.function(_gradients, autograph=False).get_concrete_function(*tensors)
        operations = {operation.type for operation in traced.graph.get_operations()}
        assert ("BiasAddGrad" in operations) != (has_gpu and dtype == tf.bfloat16)
    for cpu, gpu in zip(*found, strict=True):  # Sums of small integers are exact.
        np.testing.assert_array_equal(cpu, gpu)
