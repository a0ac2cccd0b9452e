#!/usr/bin/env bash
# Under XLA, a cumulative sum after tf.boolean_mask is empty, without an error.
#
# Version:   tensorflow 2.21.0, on a CPU
# Behaviour: in a function with `jit_compile=True`, tf.cumsum returns too few values if XLA does not
#            know the size of the tensor. XLA does not know it after tf.boolean_mask, or after a
#            tf.cond whose branches have different sizes. tf.math.cumprod and
#            tf.math.cumulative_logsumexp behave in the same way. A sum of the values is wrong too.
#            tf.reduce_sum, tf.sort and a matrix product of the same tensor are right.
# Surprise:  XLA raises an error for most operations that it cannot compile for an unknown size.
#            Here it returns a wrong result.
# Output seen:
#   cumsum after boolean_mask: [1.0, 4.0, 8.0] without XLA, [] with XLA
#   cumsum after cond: [1.0, -1.0, 2.0, 6.0] without XLA, [1.0] with XLA
#   cumprod after boolean_mask: [1.0, 3.0, 12.0] without XLA, [] with XLA
#   sum of cumsum after boolean_mask: 13.0 without XLA, 0.0 with XLA
#   sum after boolean_mask: 8.0 without XLA, 8.0 with XLA
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import tensorflow as tf


def positive(x):
    return tf.boolean_mask(x, x > 0)


def all_or_two(x):
    return tf.cond(x[0] > 0, lambda: x, lambda: x[:2])


CASES = {
    "cumsum after boolean_mask": lambda x: tf.cumsum(positive(x)),
    "cumsum after cond": lambda x: tf.cumsum(all_or_two(x)),
    "cumprod after boolean_mask": lambda x: tf.math.cumprod(positive(x)),
    "sum of cumsum after boolean_mask": lambda x: tf.reduce_sum(tf.cumsum(positive(x))),
    "sum after boolean_mask": lambda x: tf.reduce_sum(positive(x)),
}
x = tf.constant([1.0, -2.0, 3.0, 4.0])
found = {}
for name, function in CASES.items():
    plain, compiled = (
        tf.function(function, autograph=False, jit_compile=jit)(x).numpy().tolist()
        for jit in (None, True)
    )
    print(f"{name}: {plain} without XLA, {compiled} with XLA")
    found[name] = plain, compiled
assert found == {
    "cumsum after boolean_mask": ([1.0, 4.0, 8.0], []),
    "cumsum after cond": ([1.0, -1.0, 2.0, 6.0], [1.0]),
    "cumprod after boolean_mask": ([1.0, 3.0, 12.0], []),
    "sum of cumsum after boolean_mask": (13.0, 0.0),
    "sum after boolean_mask": (8.0, 8.0),
}
END
