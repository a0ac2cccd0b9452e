#!/usr/bin/env bash
# TensorFlow cannot return a zero gradient for a Keras variable that a loss does not use.
#
# Version:   tensorflow 2.21.0 with keras 3.15.1
# Behaviour: `tape.gradient(loss, variables, unconnected_gradients="zero")` raises an AttributeError
#            if one of the variables is a `keras.Variable` that the loss does not depend on. With
#            `variable.value`, the gradient is zero. Without `unconnected_gradients`, the gradient
#            of the `keras.Variable` is None. `tf.autodiff.ForwardAccumulator` has the same error
#            for every `keras.Variable`.
# Surprise:  `tape.gradient` accepts a `keras.Variable`, and the message names neither the variable
#            nor the option. The cause is that `keras.Variable.dtype` is a string, and TensorFlow
#            expects a `tf.DType`.
# Output seen:
#   used variable, "zero": 2.0
#   unused variable, "none": None
#   unused variable, "zero": AttributeError: 'str' object has no attribute '_type_enum'
#   unused variable.value, "zero": 0.0
#   forward accumulator: AttributeError: 'str' object has no attribute 'is_floating'
#   forward accumulator of variable.value: 2.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1
KERAS_BACKEND=tensorflow TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import tensorflow as tf

used, unused = keras.Variable(1.0), keras.Variable(1.0)


def gradient(source, kind):
    with tf.GradientTape() as tape:
        loss = 2.0 * tf.convert_to_tensor(used)
    return shown(lambda: tape.gradient(loss, [source], unconnected_gradients=kind)[0])


def derivative(source):
    def compute():
        with tf.autodiff.ForwardAccumulator(source, tf.constant(1.0)) as accumulator:
            result = 2.0 * tf.convert_to_tensor(used)
        return accumulator.jvp(result)

    return shown(compute)


def shown(function):
    try:
        value = function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if value is None else float(value)


results = {
    'used variable, "zero"': gradient(used, "zero"),
    'unused variable, "none"': gradient(unused, "none"),
    'unused variable, "zero"': gradient(unused, "zero"),
    'unused variable.value, "zero"': gradient(unused.value, "zero"),
    "forward accumulator": derivative(used),
    "forward accumulator of variable.value": derivative(used.value),
}
for name, value in results.items():
    print(f"{name}: {value}")
assert [*results.values()] == [
    2.0,
    None,
    "AttributeError: 'str' object has no attribute '_type_enum'",
    0.0,
    "AttributeError: 'str' object has no attribute 'is_floating'",
    2.0,
]
END
