#!/usr/bin/env bash
# With LiteRT's default delegate, `exp(NaN)` is 0, `sqrt(inf)` is NaN and `rsqrt(0)` is NaN.
#
# Version:   tensorflow 2.21.0 (`tf.lite.TFLiteConverter` and its interpreter), on an x86 CPU
# Behaviour: By default, LiteRT's interpreter uses the XNNPACK delegate. Its approximations of these
#            functions are wrong for the numbers below. Without the delegate, the results equal
#            the results of TensorFlow. XNNPACK chooses its code by the CPU, so other CPUs can have
#            other results. We used an AMD EPYC.
# Surprise:  A NaN disappears in `exp`, so a check of the output does not find it. A norm that overflows
#            becomes NaN instead of inf, and 1 / sqrt(0) becomes NaN instead of inf, so a later
#            `tf.minimum` cannot limit it. Neither the converter nor the interpreter warns.
# Output seen:
#   exp(NaN):    TensorFlow nan, LiteRT 0.0, without the delegate nan
#   expm1(NaN):  TensorFlow nan, LiteRT -1.0, without the delegate nan
#   sqrt(inf):   TensorFlow inf, LiteRT nan, without the delegate inf
#   rsqrt(0):    TensorFlow inf, LiteRT nan, without the delegate inf
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

resolver = tf.lite.experimental.OpResolverType
seen = {}
for name, function, number in (
    ("exp(NaN)", tf.exp, np.nan),
    ("expm1(NaN)", tf.math.expm1, np.nan),
    ("sqrt(inf)", tf.sqrt, np.inf),
    ("rsqrt(0)", tf.math.rsqrt, 0),
):
    x = np.array([number], "float32")
    traced = tf.function(function, input_signature=[tf.TensorSpec([1], tf.float32)])
    concrete = traced.get_concrete_function()
    model = tf.lite.TFLiteConverter.from_concrete_functions([concrete], traced).convert()
    outputs = [float(traced(x)[0])]
    for operations in (resolver.AUTO, resolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        interpreter = tf.lite.Interpreter(
            model_content=model, experimental_op_resolver_type=operations
        )
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()
        output = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        outputs.append(float(output[0]))
    print(f"{name + ':':12s} TensorFlow {{}}, LiteRT {{}}, without the delegate {{}}".format(*outputs))
    np.testing.assert_equal(outputs[0], outputs[2])
    seen[name] = outputs[1]
assert seen["exp(NaN)"] == 0 and seen["expm1(NaN)"] == -1
assert np.isnan([seen["sqrt(inf)"], seen["rsqrt(0)"]]).all()
END
  cat "$folder/log" >&2
  exit 1
}
