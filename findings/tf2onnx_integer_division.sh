#!/usr/bin/env bash
# tf2onnx converts `//` and `%` to operations with other results for negative integers.
#
# Version:   tf2onnx 1.17.0, onnxruntime 1.32.0, tensorflow 2.21.0
# Behaviour: `tf.math.floordiv` of integers becomes ONNX's Div, which rounds toward zero. The
#            remainder then has the sign of the dividend.
# Surprise:  `-(-n // k)` is the usual form of "divide and round up", and `(a - b) % n` is the usual
#            distance on a ring. In the converted model, both are wrong, without a warning.
# Output seen (for 7, 6 and 1):
#   -(-n // 3): TensorFlow [3, 2, 1], ONNX [2, 2, 0]
#   (n - 7) % 5: TensorFlow [0, 4, 4], ONNX [0, -1, -1]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0 tf2onnx==1.17.0 onnxruntime==1.32.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import numpy as np
import onnxruntime
import tensorflow as tf
import tf2onnx


def both(function, *arguments):
    """Return the outputs of a function in TensorFlow and in onnxruntime."""
    traced = tf.function(function)
    specs = [tf.TensorSpec(x.shape, x.dtype, name=f"x{i}") for i, x in enumerate(arguments)]
    model, _ = tf2onnx.convert.from_function(traced, specs, opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    inputs = {f"x{i}": x for i, x in enumerate(arguments)}
    (output,) = session.run(None, inputs)
    return traced(*arguments).numpy().tolist(), output.tolist()


numbers = np.array([7, 6, 1], "int32")
rounded_up = both(lambda n: -(-n // 3), numbers)
remainders = both(lambda n: (n - 7) % 5, numbers)
print("-(-n // 3): TensorFlow {}, ONNX {}".format(*rounded_up))
print("(n - 7) % 5: TensorFlow {}, ONNX {}".format(*remainders))
assert rounded_up == ([3, 2, 1], [2, 2, 0])
assert remainders == ([0, 4, 4], [0, -1, -1])
END
