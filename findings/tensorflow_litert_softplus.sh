#!/usr/bin/env bash
# After conversion to LiteRT, `softplus(100)` is infinite, and `log_sigmoid(-100)` is -inf.
#
# Version:   tensorflow 2.21.0 (`tf.lite.TFLiteConverter` and its interpreter)
# Behaviour: The converter replaces softplus by the logarithm of 1 + exp(x). exp overflows for x
#            above 88.7, and 1 + exp(x) is 1 for x below -17. TensorFlow's own softplus is exact for
#            such numbers.
# Surprise:  Softplus and the logarithm of a sigmoid exist because they are exact for large numbers.
#            A converted model returns inf where the original returns ordinary numbers. A later
#            product of inf and 0 is NaN. Neither the converter nor the interpreter warns.
# Output seen (inputs -100, -30, 1, 100):
#   softplus:    TensorFlow [0, 9.36e-14, 1.31, 100], LiteRT [0, 0, 1.31, inf]
#   log_sigmoid: TensorFlow [-100, -30, -0.313, -0], LiteRT [-inf, -30, -0.313, 0]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import numpy as np
import tensorflow as tf

x = np.array([-100, -30, 1, 100], "float32")
seen = {}
for name, function in (("softplus", tf.nn.softplus), ("log_sigmoid", tf.math.log_sigmoid)):
    traced = tf.function(function, input_signature=[tf.TensorSpec([4], tf.float32)])
    concrete = traced.get_concrete_function()
    model = tf.lite.TFLiteConverter.from_concrete_functions([concrete], traced).convert()
    interpreter = tf.lite.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    output = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    seen[name] = traced(x).numpy(), output
    rows = [", ".join(f"{value:.3g}" for value in row) for row in seen[name]]
    print("{:12s} TensorFlow [{}], LiteRT [{}]".format(name + ":", *rows))
assert seen["softplus"][0][3] == 100 and np.isposinf(seen["softplus"][1][3])
assert seen["log_sigmoid"][0][0] == -100 and np.isneginf(seen["log_sigmoid"][1][0])
END
