#!/usr/bin/env bash
# TensorFlow drops the higher bits of Python ints that do not fit the dtype.
#
# Version:   tensorflow 2.21.0
# Behaviour: `tf.constant(2**32 + 7, tf.int32)` is 7. The same holds for lists, ragged constants,
#            other int dtypes of at most 32 bits, and ints that an operation converts to the dtype
#            of a tensor, so `tf.constant([5], tf.int32) % 2**31` is negative. For int64, TensorFlow
#            raises an error. NumPy 2 raises an error for each of these dtypes.
# Surprise:  no warning is printed, and an id that is much too large becomes another valid id.
# Output seen:
#   tf.constant([2**32 + 7, 1], int32): [7, 1]
#   tf.constant(300, uint8): 44
#   tf.constant([5], int32) % 2**31: [-2147483643]
#   tf.constant(2**64 + 7, int64): ValueError
#   np.array([2**32 + 7], int32): OverflowError
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import numpy as np
import tensorflow as tf


def error(function):
    try:
        return f"no error: {function()}"
    except Exception as raised:
        return type(raised).__name__


results = {
    "tf.constant([2**32 + 7, 1], int32)": tf.constant([2**32 + 7, 1], tf.int32).numpy().tolist(),
    "tf.constant(300, uint8)": int(tf.constant(300, tf.uint8)),
    "tf.constant([5], int32) % 2**31": (tf.constant([5], tf.int32) % 2**31).numpy().tolist(),
    "tf.constant(2**64 + 7, int64)": error(lambda: tf.constant(2**64 + 7, tf.int64)),
    "np.array([2**32 + 7], int32)": error(lambda: np.array([2**32 + 7], np.int32)),
}
for name, value in results.items():
    print(f"{name}: {value}")
assert [*results.values()] == [[7, 1], 44, [-2147483643], "ValueError", "OverflowError"]
END
