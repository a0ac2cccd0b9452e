#!/usr/bin/env bash
# Under XLA, `tf.reduce_max` ignores NaN, and its result for only NaN is -inf.
#
# Version:   tensorflow 2.21.0 on a CPU
# Behaviour: In a function with `jit_compile=True`, `tf.reduce_max` and `tf.reduce_min` omit NaN.
#            `tf.argmax` omits the elements before the NaN. Without XLA, the maximum is NaN, and
#            `tf.argmax` omits only the NaN.
# Surprise:  A check such as `reduce_max(abs(gradient)) < limit` fails for a gradient with NaN. If the
#            same function is compiled, the check passes. `tf.math.is_finite` is correct in both.
# Output seen:
#   reduce_max [3, nan, 1]: nan, XLA 3.0
#   reduce_min [3, nan, 1]: nan, XLA 1.0
#   argmax [3, nan, 1]: 0, XLA 2
#   reduce_max [nan, nan]: nan, XLA -inf
#   the check of a gradient with NaN passes: False, XLA True
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import math

import tensorflow as tf

NAN = float("nan")


def is_small(gradient):
    return tf.reduce_max(tf.abs(gradient)) < 10.0


def both(function, *values):
    x = tf.constant(values)
    return [tf.function(function, jit_compile=jit)(x).numpy() for jit in (False, True)]


largest = both(tf.reduce_max, 3.0, NAN, 1.0)
smallest = both(tf.reduce_min, 3.0, NAN, 1.0)
position = both(tf.argmax, 3.0, NAN, 1.0)
only_nan = both(tf.reduce_max, NAN, NAN)
passes = both(is_small, 3.0, NAN, 1.0)
print("reduce_max [3, nan, 1]: {}, XLA {}".format(*largest))
print("reduce_min [3, nan, 1]: {}, XLA {}".format(*smallest))
print("argmax [3, nan, 1]: {}, XLA {}".format(*position))
print("reduce_max [nan, nan]: {}, XLA {}".format(*only_nan))
print("the check of a gradient with NaN passes: {}, XLA {}".format(*passes))
assert math.isnan(largest[0]) and largest[1] == 3
assert math.isnan(smallest[0]) and smallest[1] == 1
assert math.isnan(only_nan[0]) and only_nan[1] == -math.inf
assert [int(x) for x in position] == [0, 2]
assert [bool(x) for x in passes] == [False, True]
END
