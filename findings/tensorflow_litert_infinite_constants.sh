#!/usr/bin/env bash
# LiteRT's converter replaces the constants inf and -inf with finite numbers, so `is_inf` is wrong.
#
# Version:   tensorflow 2.21.0 (`tf.lite.TFLiteConverter` and its interpreter)
# Behaviour: A scalar constant inf in the program becomes 3.4028235e38, the largest float32, and -inf
#            becomes -3.4028235e38. `tf.math.is_inf(x)` compares the absolute value of x with such a
#            constant. So it is False for inf and True for the largest finite number.
# Surprise:  A guard such as `tf.where(tf.math.is_inf(x), 0.0, x)` does nothing after conversion. Scores
#            that `tf.where(mask, scores, -inf)` excludes are finite. If a mask excludes all scores, a
#            softmax returns equal weights instead of NaN. No error and no warning.
# Output seen:
#   is_inf of [inf, -inf, 1, 3.4028235e38]: TensorFlow [True, True, False, False]
#                                           LiteRT [False, False, False, True]
#   where(x > 0, x, -inf) of [2, -1]:       TensorFlow [2.0, -inf]
#                                           LiteRT [2.0, -3.4028234663852886e+38]
#   softmax of it for [-2, -1]:             TensorFlow [nan, nan]
#                                           LiteRT [0.5, 0.5]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import numpy as np
import tensorflow as tf

inf, largest = np.inf, np.finfo("float32").max


def masked(x):
    return tf.where(x > 0, x, -inf)


def outputs(name, function, x):
    x = np.array(x, "float32")
    traced = tf.function(function, input_signature=[tf.TensorSpec(x.shape, tf.float32)])
    concrete = traced.get_concrete_function()
    model = tf.lite.TFLiteConverter.from_concrete_functions([concrete], traced).convert()
    interpreter = tf.lite.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist()
    expected = traced(x).numpy().tolist()
    print(f"{name:39s} TensorFlow {expected}\n{'':39s} LiteRT {found}")
    return expected, found


seen = outputs("is_inf of [inf, -inf, 1, 3.4028235e38]:", tf.math.is_inf, [inf, -inf, 1, largest])
assert seen == ([True, True, False, False], [False, False, False, True])
seen = outputs("where(x > 0, x, -inf) of [2, -1]:", masked, [2, -1])
assert seen == ([2, -inf], [2, -largest])
seen = outputs("softmax of it for [-2, -1]:", lambda x: tf.nn.softmax(masked(x)), [-2, -1])
assert np.isnan(seen[0]).all() and seen[1] == [0.5, 0.5]
END
  cat "$folder/log" >&2
  exit 1
}
