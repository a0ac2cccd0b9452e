#!/usr/bin/env bash
# tf2onnx removes a cast to float16 or bfloat16 and back, so nothing is rounded.
#
# Version:   tf2onnx 1.17.0, tensorflow 2.21.0, onnxruntime 1.32.0
# Behaviour: tf2onnx drops `tf.cast(tf.cast(x, tf.bfloat16), tf.float32)`, so the converted model
#            computes with the exact numbers. Numbers above 65504 do not overflow in float16.
#            tf2onnx keeps casts to ints and back.
# Surprise:  These casts change the numbers. A model that was trained with rounded values gives
#            other outputs after the conversion. There is no warning.
# Output seen (x = [0.1, 301, 1e6]):
#   bfloat16: TensorFlow [0.100098, 300, 999424], ONNX [0.1, 301, 1e+06]
#   float16:  TensorFlow [0.0999756, 301, inf], ONNX [0.1, 301, 1e+06]
#   int32:    TensorFlow [0, 301, 1e+06], ONNX [0, 301, 1e+06]
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

x = np.array([0.1, 301.0, 1e6], "float32")
seen = {}
for dtype in (tf.bfloat16, tf.float16, tf.int32):
    signature = [tf.TensorSpec(x.shape, tf.float32, name="x")]
    model, _ = tf2onnx.convert.from_function(
        tf.function(lambda x: tf.cast(tf.cast(x, dtype), tf.float32)), signature, opset=18
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    [found] = session.run(None, {"x": x})
    expected = tf.cast(tf.cast(x, dtype), tf.float32).numpy()
    seen[dtype.name] = np.array_equal(found, expected), np.array_equal(found, x)
    rows = [", ".join(f"{value:.6g}" for value in values) for values in (expected, found)]
    print("{:9s} TensorFlow [{}], ONNX [{}]".format(dtype.name + ":", *rows))
rounded, unchanged = (True, False), (False, True)
assert seen == {"bfloat16": unchanged, "float16": unchanged, "int32": rounded}
END
  cat "$folder/log" >&2
  exit 1
}
