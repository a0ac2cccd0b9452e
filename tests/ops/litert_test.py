import numpy as np
import pytest
import tensorflow as tf

from ut_keras.ops import litert

X = np.array([-1000, -100, -30, -1, 0, 1, 30, 100, 1000], "float32")


def _in_litert(function, x):
    traced = tf.function(function, input_signature=[tf.TensorSpec(x.shape, x.dtype)])
    with litert.tracing():
        concrete = traced.get_concrete_function()
    content = tf.lite.TFLiteConverter.from_concrete_functions([concrete], traced).convert()
    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_log_sigmoid_is_finite_in_litert():
    """The converter's own form is -inf for -100."""
    expected = -np.logaddexp(0, -X.astype("float64"))
    np.testing.assert_allclose(_in_litert(litert.log_sigmoid, X), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(litert.log_sigmoid(X), tf.math.log_sigmoid(X))
