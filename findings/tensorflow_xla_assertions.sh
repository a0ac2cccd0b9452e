#!/usr/bin/env bash
# XLA ignores `tf.debugging` assertions, `check_numerics` and `ensure_shape`.
#
# Version:   tensorflow 2.21.0
# Behaviour: in a `tf.function` with `jit_compile=True`, these three checks do nothing. Without XLA,
#            each of them raises an error for the same values.
# Surprise:  the function continues with values that the check should have stopped. TensorFlow logs
#            "Ignoring Assert operator" for the assertion, and nothing for the other two checks.
# Output seen:
#   assert_less, without XLA: InvalidArgumentError
#   assert_less, with XLA: no error
#   check_numerics, without XLA: InvalidArgumentError
#   check_numerics, with XLA: no error
#   ensure_shape, without XLA: InvalidArgumentError
#   ensure_shape, with XLA: no error
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import tensorflow as tf


def assert_less(x):
    tf.debugging.assert_less(x, 3.0)
    return 2 * x


def check_numerics(x):
    return tf.debugging.check_numerics(1 / (x - 3), "x must not be 3")


def ensure_shape(x):
    return tf.ensure_shape(tf.boolean_mask(x, x > 1), [3])


values = tf.constant([1.0, 2.0, 3.0])
for check in (assert_less, check_numerics, ensure_shape):
    for jit_compile in (False, True):
        error = "no error"
        try:
            tf.function(check, jit_compile=jit_compile)(values)
        except tf.errors.InvalidArgumentError as found:
            error = type(found).__name__
        print(f"{check.__name__}, {'with' if jit_compile else 'without'} XLA: {error}")
        assert (error == "no error") == jit_compile
END
