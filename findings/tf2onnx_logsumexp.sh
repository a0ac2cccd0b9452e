#!/usr/bin/env bash
# After conversion with tf2onnx, `tf.reduce_logsumexp([-inf, -inf])` is NaN instead of -inf.
#
# Version:   tf2onnx 1.17.0, tensorflow 2.21.0, onnxruntime 1.32.0
# Behaviour: `tf.reduce_logsumexp` replaces a maximum that is not finite by 0 before it subtracts the
#            maximum. tf2onnx converts this replacement to a product of the maximum and 0, and the
#            product of an infinity and 0 is NaN.
# Surprise:  Log probabilities of impossible events are -inf. In the forward algorithm of a CTC loss or
#            a conditional random field, such a row occurs at the first steps. Its sum is NaN after
#            conversion, and so are all later sums. No error and no warning.
# Output seen:
#   [0.0, -inf]:  TensorFlow 0.0, ONNX 0.0
#   [-inf, -inf]: TensorFlow -inf, ONNX nan
#   [0.0, inf]:   TensorFlow inf, ONNX nan
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

inf = float("inf")
signature = [tf.TensorSpec([2], tf.float32, name="x")]
function = tf.function(lambda x: tf.reduce_logsumexp(x))
model, _ = tf2onnx.convert.from_function(function, signature, opset=18)
session = onnxruntime.InferenceSession(model.SerializeToString())
seen = []
for row in ([0.0, -inf], [-inf, -inf], [0.0, inf]):
    x = np.array(row, "float32")
    expected, found = function(x).numpy(), session.run(None, {"x": x})[0]
    print(f"{f'{row}:':13s} TensorFlow {expected}, ONNX {found}")
    seen.append((float(expected), float(found)))
assert seen[0] == (0, 0) and [pair[0] for pair in seen[1:]] == [-inf, inf]
assert np.isnan(seen[1][1]) and np.isnan(seen[2][1])
END
  cat "$folder/log" >&2
  exit 1
}
