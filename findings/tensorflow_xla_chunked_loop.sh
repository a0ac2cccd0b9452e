#!/usr/bin/env bash
# Under XLA, a loop in chunks of 2 or more positions skips a sequence of length 1.
#
# Version:   tensorflow 2.21.0, on a CPU. Reported as
#            https://github.com/tensorflow/tensorflow/issues/123067.
# Behaviour: a `tf.while_loop` counts from 0 to a constant end, in steps of 2. If the end is 1, the
#            loop has one iteration. XLA removes this loop and returns the initial values, without an
#            error. The same happens with steps of 3, 4, 8 and 64. With the ends 2 and 3, and with
#            steps of 1, the results are right.
# Surprise:  the function works for all lengths except 1, and only with `jit_compile=True`.
# Output seen:
#   length 1: 1.0 without XLA, 0.0 with XLA
#   length 2: 2.0 without XLA, 2.0 with XLA
#   length 3: 3.0 without XLA, 3.0 with XLA
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>"$folder/log" <<'END' || {
import tensorflow as tf

CHUNK = 2


def sum_by_chunks(x):
    def add_chunk(start, total):
        return start + CHUNK, total + tf.reduce_sum(x[start : start + CHUNK])

    return tf.while_loop(lambda start, _: start < x.shape[0], add_chunk, (0, 0.0))[1]


found = {}
for length in (1, 2, 3):
    x = tf.ones([length])
    plain = tf.function(sum_by_chunks, autograph=False)(x)
    compiled = tf.function(sum_by_chunks, autograph=False, jit_compile=True)(x)
    found[length] = float(plain), float(compiled)
    print(f"length {length}: {plain} without XLA, {compiled} with XLA")
assert found == {1: (1.0, 0.0), 2: (2.0, 2.0), 3: (3.0, 3.0)}
END
  cat "$folder/log" >&2
  exit 1
}
