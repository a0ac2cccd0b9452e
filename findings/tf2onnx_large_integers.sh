#!/usr/bin/env bash
# After conversion with tf2onnx, `>`, `<`, `top_k` and `sort` round integers above 16,777,216.
#
# Version:   tf2onnx 1.17.0, tensorflow 2.21.0, onnxruntime 1.32.0
# Behaviour: tf2onnx casts int32 and int64 to float32 before the ONNX operations Greater, Less and
#            TopK, although these operations support integers. float32 has 24 bits for an integer.
#            `>=` is right.
# Surprise:  Neither conversion nor onnxruntime warns. `top_k` and `sort` return numbers that the input
#            does not contain. Hashes, ids of users and times in seconds are such integers.
# Output seen (x = [16777216, 16777217, 16777219], y = [16777217, 16777216, 16777218]):
#   x > y:      TensorFlow [False, True, True], ONNX [False, False, True]
#   x >= y:     TensorFlow [False, True, True], ONNX [False, True, True]
#   top_k(x):   TensorFlow [16777219, 16777217], ONNX [16777220, 16777216]
#   sort(x):    TensorFlow [16777216, 16777217, 16777219], ONNX [16777215, 16777217, 16777219]
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

x = np.array([16777216, 16777217, 16777219], "int32")
y = np.array([16777217, 16777216, 16777218], "int32")
same = []
for name, function in {
    "x > y": lambda x, y: x > y,
    "x >= y": lambda x, y: x >= y,
    "top_k(x)": lambda x, y: tf.math.top_k(x, 2)[0],
    "sort(x)": lambda x, y: tf.sort(x),
}.items():
    signature = [tf.TensorSpec([3], tf.int32, name="x"), tf.TensorSpec([3], tf.int32, name="y")]
    model, _ = tf2onnx.convert.from_function(tf.function(function), signature, opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {each.name: {"x": x, "y": y}[each.name] for each in session.get_inputs()}
    found = session.run(None, feeds)[0].tolist()
    expected = function(tf.constant(x), tf.constant(y)).numpy().tolist()
    print(f"{name + ':':11s} TensorFlow {expected}, ONNX {found}")
    same.append(found == expected)
assert same == [False, True, False, False]
END
  cat "$folder/log" >&2
  exit 1
}
