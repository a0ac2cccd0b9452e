#!/usr/bin/env bash
# After conversion with tf2onnx, `tf.where` returns NaN if the value that it does not select is NaN.
#
# Version:   tf2onnx 1.17.0, tensorflow 2.21.0, onnxruntime 1.32.0
# Behaviour: tf2onnx converts `tf.where(condition, x, y)` to `condition * x + (1 - condition) * y`,
#            although ONNX has an operation `Where`. If `x` is NaN or infinite where the condition
#            is False, the product is NaN.
# Surprise:  `tf.where` is the usual guard against such values, as in `tf.where(x > 0, tf.sqrt(x),
#            0)`. Conversion and onnxruntime raise no error. If a value of `tf.where` is a constant
#            -inf, as in masks, tf2onnx uses `Where`.
# Output seen (x = [-1, 0, 4]):
#   where(x > 0, sqrt(x), 0): TensorFlow [0. 0. 2.], ONNX [nan  0.  2.]
#   where(x != 0, 1 / x, 0):  TensorFlow [-1.    0.    0.25], ONNX [-1.     nan  0.25]
#   where(x > 0, x, -inf):    TensorFlow [-inf -inf   4.], ONNX [-inf -inf   4.]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0 tf2onnx==1.17.0 onnxruntime==1.32.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import numpy as np
import onnxruntime
import tensorflow as tf
import tf2onnx

x = np.array([-1.0, 0.0, 4.0], "float32")
functions = {
    "where(x > 0, sqrt(x), 0)": lambda x: tf.where(x > 0, tf.sqrt(x), 0.0),
    "where(x != 0, 1 / x, 0)": lambda x: tf.where(x != 0, 1 / x, 0.0),
    "where(x > 0, x, -inf)": lambda x: tf.where(x > 0, x, -np.inf),
}
has_nan = []
for name, function in functions.items():
    signature = [tf.TensorSpec(x.shape, tf.float32, name="x")]
    model, _ = tf2onnx.convert.from_function(tf.function(function), signature, opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    [found] = session.run(None, {"x": x})
    expected = function(tf.constant(x)).numpy()
    print(f"{name + ':':25s} TensorFlow {expected}, ONNX {found}")
    assert not np.isnan(expected).any()
    has_nan.append(bool(np.isnan(found).any()))
assert has_nan == [True, True, False]
END
  cat "$folder/log" >&2
  exit 1
}
