#!/usr/bin/env bash
# Under XLA, `kept[-1]` after `tf.boolean_mask` is the first row instead of the last row.
#
# Version:   tensorflow 2.21.0 on a CPU
# Behaviour: The number of rows that `tf.boolean_mask` keeps is known only at run time. In a function
#            with `jit_compile=True`, the index -1 of such a tensor reads row 0. The result of `tf.roll`
#            has too many rows, and `tf.linalg.trace` adds more elements than the diagonal has.
#            `kept[n - 1]` with n = `tf.shape(kept)[0]` is correct, like `reduce_sum` and `softmax`.
# Surprise:  XLA supports tensors of such a size, and raises an error for operations that it cannot
#            compile, for example `kept[::-1]`. These operations compile and return wrong numbers.
# Output seen (rows 1 to 7, of which rows 1, 3, 4 and 7 are kept):
#   kept:                 [1, 3, 4, 7], XLA [1, 3, 4, 7]
#   kept[-1]:             7, XLA 1
#   kept[n - 1]:          7, XLA 7
#   tf.roll(kept, 1, 0):  [7, 1, 3, 4], XLA [4, 7, 1, 1, 1, 1, 1]
#   trace of kept * kept: 75, XLA 78
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import tensorflow as tf

rows = tf.constant([1, 2, 3, 4, 5, 6, 7])
keep = tf.constant([True, False, True, True, False, False, True])
cases = {
    "kept": lambda kept: kept,
    "kept[-1]": lambda kept: kept[-1],
    "kept[n - 1]": lambda kept: kept[tf.shape(kept)[0] - 1],
    "tf.roll(kept, 1, 0)": lambda kept: tf.roll(kept, 1, 0),
    "trace of kept * kept": lambda kept: tf.linalg.trace(kept[:, None] * kept),
}
seen = {}
for name, case in cases.items():

    def function(rows, keep, case=case):
        return case(tf.boolean_mask(rows, keep))

    results = [
        tf.function(function, jit_compile=jit, autograph=False)(rows, keep).numpy().tolist()
        for jit in (False, True)
    ]
    print("{:21s} {}, XLA {}".format(name + ":", *results))
    seen[name] = results
assert seen["kept"][0] == seen["kept"][1] == [1, 3, 4, 7]
assert seen["kept[n - 1]"] == [7, 7] and seen["kept[-1]"] == [7, 1]
for name in ("tf.roll(kept, 1, 0)", "trace of kept * kept"):
    assert seen[name][0] != seen[name][1]
END
