#!/usr/bin/env bash
# After conversion with tf2onnx, the sparse cross entropy is infinite for large differences of logits.
#
# Version:   tf2onnx 1.17.0, tensorflow 2.21.0, onnxruntime 1.32.0
# Behaviour: tf2onnx converts `tf.nn.sparse_softmax_cross_entropy_with_logits` to the logarithm of a
#            softmax. If the logit of the label is about 104 below the largest logit, its
#            probability is 0, and the loss is inf. For `tf.nn.softmax_cross_entropy_with_logits`,
#            tf2onnx uses the ONNX operation LogSoftmax, and the loss is right.
# Surprise:  The functions of TensorFlow take logits to avoid such infinite losses. A model that
#            scores texts then returns inf for a text with one such token. No error, no warning.
# Output seen (logits [0, difference], label 0):
#   difference  50: TensorFlow 50.0, ONNX sparse 50.0, ONNX dense 50.0
#   difference 110: TensorFlow 110.0, ONNX sparse inf, ONNX dense 110.0
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


def sparse(logits):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.constant([0]), logits)


def dense(logits):
    return tf.nn.softmax_cross_entropy_with_logits(tf.constant([[1.0, 0.0]]), logits)


def converted(function):
    signature = [tf.TensorSpec([1, 2], tf.float32, name="logits")]
    model, _ = tf2onnx.convert.from_function(tf.function(function), signature, opset=18)
    return onnxruntime.InferenceSession(model.SerializeToString())


sessions = converted(sparse), converted(dense)
seen = []
for difference in (50, 110):
    logits = np.array([[0, difference]], "float32")
    losses = [sparse(logits).numpy()[0]]
    losses += [session.run(None, {"logits": logits})[0][0] for session in sessions]
    print("difference {:3d}: TensorFlow {}, ONNX sparse {}, ONNX dense {}".format(difference, *losses))
    seen.append(losses)
assert np.allclose(seen[0], 50) and np.allclose([seen[1][0], seen[1][2]], 110)
assert np.isposinf(seen[1][1])
END
  cat "$folder/log" >&2
  exit 1
}
