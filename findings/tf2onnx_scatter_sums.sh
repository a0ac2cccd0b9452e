#!/usr/bin/env bash
# tf2onnx converts `tf.scatter_nd` to an operation that does not add values of the same index.
#
# Version:   tf2onnx 1.17.0, onnxruntime 1.32.0, tensorflow 2.21.0
# Behaviour: If an index occurs several times, `tf.scatter_nd` adds the values. The converted model
#            uses ONNX's ScatterND without its attribute `reduction`, so only the last value stays.
#            ONNX has had this attribute since opset 16. The conversion here uses opset 18.
# Surprise:  Adding is the purpose of `tf.scatter_nd` in many models, for example for the sum of copy
#            probabilities of equal tokens. The converted model loses all values but one.
# Output seen (values 0.1, 0.2, 0.3 and 0.4 for the tokens 1, 0, 1 and 1):
#   TensorFlow: [0.2, 0.8]
#   ONNX:       [0.2, 0.4]
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


tokens = np.array([[1], [0], [1], [1]], "int32")
shares = np.array([0.1, 0.2, 0.3, 0.4], "float32")
results = both(lambda index, value: tf.scatter_nd(index, value, [2]), tokens, shares)
of_tensorflow, of_onnx = [[round(x, 3) for x in row] for row in results]
print("TensorFlow:", of_tensorflow)
print("ONNX:      ", of_onnx)
assert of_tensorflow == [0.2, 0.8] and of_onnx == [0.2, 0.4]
END
