#!/usr/bin/env bash
# XLA cannot compile the gradient of a tf.cond whose branch contains a tf.while_loop.
#
# Version:   tensorflow 2.21.0, on a CPU
# Behaviour: XLA compiles the gradient of a loop, the gradient of a condition, and the result of a
#            loop inside a condition. It does not compile the gradient of a loop inside a condition:
#            the error says that the operation FakeParam has no kernel. The other branch of the
#            condition has no values that the gradient of the loop needs, so TensorFlow puts a
#            FakeParam in their place.
# Surprise:  each part alone can be compiled, and the program does not contain an operation
#            FakeParam.
# Output seen:
#   gradient of a loop: 8.0
#   gradient of a condition: 2.0
#   a loop in a condition: 24.0
#   gradient of a loop in a condition: InvalidArgumentError, No registered 'FakeParam' OpKernel
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import tensorflow as tf


def doubled_three_times(x):
    _, y = tf.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, 2 * y), (0, x), maximum_iterations=3
    )
    return y


def conditional(x):
    return tf.cond(x > 0, lambda: 2 * x, lambda: x)


def loop_in_condition(x):
    return tf.cond(x > 0, lambda: doubled_three_times(x), lambda: x)


def compiled(function):
    return tf.function(function, autograph=False, jit_compile=True)(tf.constant(3.0))


def gradient_of(function):
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return gradient


found = {
    "gradient of a loop": compiled(gradient_of(doubled_three_times)),
    "gradient of a condition": compiled(gradient_of(conditional)),
    "a loop in a condition": compiled(loop_in_condition),
}
for name, value in found.items():
    print(f"{name}: {value.numpy()}")
assert [float(value) for value in found.values()] == [8, 2, 24]
try:
    compiled(gradient_of(loop_in_condition))
except tf.errors.InvalidArgumentError as error:
    reason = "No registered 'FakeParam' OpKernel"
    assert reason in str(error), error
    print(f"gradient of a loop in a condition: {type(error).__name__}, {reason}")
else:
    raise SystemExit("XLA compiles the gradient of a loop in a condition")
END
