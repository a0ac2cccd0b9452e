#!/usr/bin/env bash
# In a model that tf2onnx converts, the one-hot vector of -1 has a 1 at the last class.
#
# Version:   tf2onnx 1.17.0, onnxruntime 1.32.0, tensorflow 2.21.0
# Behaviour: `tf.one_hot` returns zeros for an id outside the classes. ONNX's OneHot counts negative
#            ids from the end, and tf2onnx does not correct this difference.
# Surprise:  -1 is a common id for "no label" and for padding. In TensorFlow, such a position adds
#            nothing to a sum or a loss. In the converted model, it counts as the last class.
# Output seen (ids -1, 0 and 2 of three classes):
#   TensorFlow: [[0, 0, 0], [1, 0, 0], [0, 0, 1]]
#   ONNX:       [[0, 0, 1], [1, 0, 0], [0, 0, 1]]
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


ids = np.array([-1, 0, 2], "int32")
results = both(lambda x: tf.one_hot(x, 3), ids)
of_tensorflow, of_onnx = [[[int(x) for x in row] for row in rows] for rows in results]
print("TensorFlow:", of_tensorflow)
print("ONNX:      ", of_onnx)
assert of_tensorflow == [[0, 0, 0], [1, 0, 0], [0, 0, 1]]
assert of_onnx == [[0, 0, 1], [1, 0, 0], [0, 0, 1]]
END
