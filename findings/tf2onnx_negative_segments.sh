#!/usr/bin/env bash
# After conversion with tf2onnx, `unsorted_segment_sum` adds values with id -1 to the last segment.
#
# Version:   tf2onnx 1.17.0, tensorflow 2.21.0, onnxruntime 1.32.0
# Behaviour: `tf.math.unsorted_segment_sum` drops values with a negative segment id. In the converted
#            model, the id -1 means the last segment.
# Surprise:  The documentation of TensorFlow recommends negative ids for values to omit, such as
#            padding. After conversion, the padding changes the last segment. No error, no warning.
# Output seen (values [1, 2, 4], segment ids [0, -1, 1]):
#   unsorted_segment_sum: TensorFlow [1.0, 4.0, 0.0], ONNX [1.0, 4.0, 2.0]
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

values, ids = np.array([1, 2, 4], "float32"), np.array([0, -1, 1], "int32")
signature = [tf.TensorSpec([3], tf.float32, name="x"), tf.TensorSpec([3], tf.int32, name="ids")]
function = tf.function(lambda x, ids: tf.math.unsorted_segment_sum(x, ids, 3))
model, _ = tf2onnx.convert.from_function(function, signature, opset=18)
session = onnxruntime.InferenceSession(model.SerializeToString())
expected = function(values, ids).numpy().tolist()
found = session.run(None, {"x": values, "ids": ids})[0].tolist()
print(f"unsorted_segment_sum: TensorFlow {expected}, ONNX {found}")
assert expected == [1, 4, 0] and found == [1, 4, 2]
END
  cat "$folder/log" >&2
  exit 1
}
