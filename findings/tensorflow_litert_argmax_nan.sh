#!/usr/bin/env bash
# After conversion to LiteRT, `argmax` of scores with a NaN can be 2147483647.
#
# Version:   tensorflow 2.21.0
# Behaviour: In TensorFlow, a NaN is never the largest score, and `argmax` of only NaN is 0. In
#            LiteRT, the result depends on the number of scores and on the position of the NaN. It
#            can be right, or the largest int32.
# Surprise:  The index is out of range. A program that looks up a class or a token with this index
#            fails far from the cause. If the program clamps the index, it reads the last class.
# Output seen:
#   [nan, 1, 2, 3]:              TensorFlow 3, LiteRT 2147483647
#   [9, 8, 7, 6, nan, 5, 4, 3]:  TensorFlow 0, LiteRT 2147483647
#   8 times nan:                 TensorFlow 0, LiteRT 2147483647
#   [nan, 1, 2, 3, 4, 5, 6, 7]:  TensorFlow 7, LiteRT 7
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0 keras==3.15.1
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import numpy as np
import tensorflow as tf


def run(scores):
    scores = np.array(scores, "float32")
    signature = [tf.TensorSpec(scores.shape, tf.float32)]
    function = tf.function(lambda x: tf.argmax(x, output_type=tf.int32), signature)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    interpreter = tf.lite.Interpreter(model_content=converter.convert())
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], scores)
    interpreter.invoke()
    lite = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return int(function(scores)), int(lite)


nan = np.nan
seen = []
for name, scores in (
    ("[nan, 1, 2, 3]", [nan, 1, 2, 3]),
    ("[9, 8, 7, 6, nan, 5, 4, 3]", [9, 8, 7, 6, nan, 5, 4, 3]),
    ("8 times nan", [nan] * 8),
    ("[nan, 1, 2, 3, 4, 5, 6, 7]", [nan, 1, 2, 3, 4, 5, 6, 7]),
):
    tensorflow, lite = run(scores)
    print(f"{name + ':':28s} TensorFlow {tensorflow}, LiteRT {lite}")
    seen.append((tensorflow, lite))
assert seen == [(3, 2**31 - 1), (0, 2**31 - 1), (0, 2**31 - 1), (7, 7)]
END
  cat "$folder/log" >&2
  exit 1
}
