#!/usr/bin/env bash
# With TensorFlow, `keras.ops.argpartition` returns indices twice and ignores fractions.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: With the TensorFlow backend, the function first casts its argument to int32, so all
#            probabilities below 1 are equal. For negative numbers, it returns some indices twice
#            and omits others. NumPy's own function returns the right indices.
# Surprise:  `argpartition` is a fast way to the best candidates of a beam search, whose scores are
#            log probabilities or probabilities. The docstring does not mention a restriction on the
#            dtype or the sign. No error and no warning.
# Output seen:
#   argpartition([-1, -2, -3, -4, -5], 1): NumPy [4, 3, 2, 1, 0], Keras [4, 3, 3, 4, 0]
#   the 2 smallest of [0.7, 0.1, 0.9, 0.2]: NumPy [0.1, 0.2], Keras [0.7, 0.1]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0 numpy==2.4.6
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras
import numpy as np


def partitions(numbers, kth):
    numbers = np.array(numbers, "float32")
    return numbers, np.argpartition(numbers, kth), np.asarray(keras.ops.argpartition(numbers, kth))


_, of_numpy, of_keras = partitions([-1, -2, -3, -4, -5], 1)
print(
    f"argpartition([-1, -2, -3, -4, -5], 1): NumPy {of_numpy.tolist()}, Keras {of_keras.tolist()}"
)
assert sorted(of_numpy) == [0, 1, 2, 3, 4] and len(set(of_keras.tolist())) < 5

numbers, *indices = partitions([0.7, 0.1, 0.9, 0.2], 1)
smallest = [sorted(numbers[each[:2]].tolist()) for each in indices]
shown = [[round(number, 1) for number in numbers[each[:2]].tolist()] for each in indices]
print(f"the 2 smallest of [0.7, 0.1, 0.9, 0.2]: NumPy {shown[0]}, Keras {shown[1]}")
assert smallest[0] == sorted(numbers.tolist())[:2] != smallest[1]
END
  cat "$folder/log" >&2
  exit 1
}
