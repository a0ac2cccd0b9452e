#!/usr/bin/env bash
# With TensorFlow, `keras.ops.isclose(inf, -inf)` is True, and `isclose(inf, inf)` is False.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: With the TensorFlow backend, `isclose` computes |x1 - x2| <= atol + rtol * |x2| for all
#            numbers. If x2 is infinite, the right side is infinite. The left side is NaN for equal
#            infinities. So an infinity is close to all finite numbers and to the opposite
#            infinity, but not to itself. `keras.ops.allclose` and NumPy treat infinities separately.
# Surprise:  Masked logits often contain -inf. A check with `isclose` then accepts an output that is
#            finite or inf at these positions, and rejects the right one.
# Output seen (x2 is inf):
#   x1                  [-inf, 0.0, inf]
#   numpy.isclose:      [False, False, True]
#   keras.ops.isclose:  [True, True, False]
#   keras.ops.allclose: [False, False, True]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras
import numpy as np

inf = np.float32("inf")
x1 = [-inf, np.float32(0), inf]
print("x1                 ", [float(x) for x in x1])
seen = []
for name, function in (
    ("numpy.isclose:", np.isclose),
    ("keras.ops.isclose:", keras.ops.isclose),
    ("keras.ops.allclose:", keras.ops.allclose),
):
    seen.append([bool(function(x, inf)) for x in x1])
    print(f"{name:19s} {seen[-1]}")
assert seen[0] == seen[2] == [False, False, True] and seen[1] == [True, True, False]
END
  cat "$folder/log" >&2
  exit 1
}
