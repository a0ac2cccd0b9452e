#!/usr/bin/env bash
# tf2onnx returns a model with an operation that ONNX does not have.
#
# Version:   tf2onnx 1.17.0, onnxruntime 1.32.0, tensorflow 2.21.0
# Behaviour: ONNX has no operation for `tf.math.xlogy`. `tf2onnx.convert.from_function` writes a log
#            line, copies TensorFlow's operation into the model and returns normally. onnxruntime
#            then rejects the model.
# Surprise:  a conversion without an exception gives a model that onnxruntime cannot load. A program
#            that turns off log lines notices nothing.
# Output seen:
#   from_function: no exception
#   operations in the file: Log, Xlogy
#   onnxruntime: InvalidGraph
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0 tf2onnx==1.17.0 onnxruntime==1.32.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import onnxruntime
import tensorflow as tf
import tf2onnx


@tf.function
def entropy(x):
    return tf.math.xlogy(x, x) + tf.math.log(x)


model, _ = tf2onnx.convert.from_function(entropy, [tf.TensorSpec([3], tf.float32, name="x")])
print("from_function: no exception")
operations = sorted({node.op_type for node in model.graph.node} & {"Log", "Xlogy"})
print("operations in the file:", ", ".join(operations))
try:
    onnxruntime.InferenceSession(model.SerializeToString())
    seen = "loaded"
except Exception as error:
    seen = type(error).__name__
print("onnxruntime:", seen)
assert operations == ["Log", "Xlogy"] and seen == "InvalidGraph"
END
