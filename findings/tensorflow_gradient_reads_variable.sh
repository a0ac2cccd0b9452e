#!/usr/bin/env bash
# A custom gradient that reads a variable cannot be used inside `tf.while_loop`.
#
# Version:   tensorflow 2.21.0
# Behaviour: the gradient function of a `tf.custom_gradient` reads a variable. The gradient is right
#            in eager mode, also with a loop, and in a `tf.function` without a loop. In a
#            `tf.function` with `tf.while_loop`, TensorFlow raises a ValueError when it traces the
#            gradient of the loop. It makes no difference if the loop also reads the variable in the
#            forward pass.
# Surprise:  the documentation names no such limit. The error is about "internal_captures", and names
#            neither the variable's reader nor the gradient function.
# Output seen:
#   eager, no loop: 3.0
#   eager, loop: 27.0
#   function, no loop: 3.0
#   function, loop: ValueError, internal_capture_to_output
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import tensorflow as tf

weight = tf.Variable(3.0)


@tf.custom_gradient
def doubled(x):
    return 2.0 * x, lambda upstream: upstream * weight.read_value()


def once(x):
    return doubled(x)


def in_a_loop(x):
    return tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, doubled(x)), (0, x))[1]


def gradient(function):
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


eager = float(gradient(once)), float(gradient(in_a_loop))
print(f"eager, no loop: {eager[0]}\neager, loop: {eager[1]}")
traced = float(tf.function(gradient, autograph=False)(once))
print("function, no loop:", traced)
try:
    tf.function(gradient, autograph=False)(in_a_loop)
    error = ""
except ValueError as raised:
    error = str(raised)
found = "internal_capture_to_output" in error
print("function, loop:", "ValueError, internal_capture_to_output" if found else error or "no error")
assert (*eager, traced) == (3.0, 27.0, 3.0) and found
END
