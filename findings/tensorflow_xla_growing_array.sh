#!/usr/bin/env bash
# Under XLA, a growing tf.TensorArray loses entries, without an error.
#
# Version:   tensorflow 2.21.0, on a CPU
# Behaviour: in a function with `jit_compile=True`, a TensorArray with dynamic_size=True keeps its
#            first size. If this size is 0, XLA ignores all writes. With a larger size, a write after
#            the end replaces the last entry.
# Surprise:  XLA raises an error for most operations that it cannot compile. Here it compiles the
#            function and returns a wrong result.
# Reports:   github.com/tensorflow/tensorflow/issues/119375 (size 0)
# Output seen:
#   size 0, 3 writes: [1.0, 2.0, 3.0] without XLA, [] with XLA
#   size 1, 3 writes: [1.0, 2.0, 3.0] without XLA, [3.0] with XLA
#   size 2, 3 writes: [1.0, 2.0, 3.0] without XLA, [1.0, 3.0] with XLA
#   size 3, 3 writes: [1.0, 2.0, 3.0] without XLA, [1.0, 2.0, 3.0] with XLA
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import tensorflow as tf


def write_three(x, size):
    array = tf.TensorArray(tf.float32, size, dynamic_size=True)
    _, array = tf.while_loop(
        lambda i, _: i < 3, lambda i, array: (i + 1, array.write(i, x[i])), (0, array)
    )
    return array.stack()


x = tf.constant([1.0, 2.0, 3.0])
found = []
for size in range(4):
    plain, compiled = (
        tf.function(lambda x: write_three(x, size), autograph=False, jit_compile=jit)(x)
        .numpy()
        .tolist()
        for jit in (None, True)
    )
    print(f"size {size}, 3 writes: {plain} without XLA, {compiled} with XLA")
    assert plain == [1.0, 2.0, 3.0]
    found.append(compiled)
assert found == [[], [3.0], [1.0, 3.0], [1.0, 2.0, 3.0]]
END
