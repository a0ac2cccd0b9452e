#!/usr/bin/env bash
# `to_categorical` makes the label -1 of an array the last class, and of a tensor no class.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: For a NumPy array, `keras.utils.to_categorical` uses -1 as an index from the end. For a
#            tensor, and in `keras.ops.one_hot`, the row of -1 is all zeros. A label below minus the
#            number of classes is an error only for arrays.
# Surprise:  -1 is a usual label for padding or "no class". With zeros, it adds nothing to the loss.
#            With arrays, the model learns the last class there. The result depends on the type of
#            the input.
# Output seen (labels 0 and -1, three classes):
#   array:  [[1. 0. 0.], [0. 0. 1.]]
#   tensor: [[1. 0. 0.], [0. 0. 0.]]
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

labels = np.array([0, -1])
seen = {
    "array": keras.utils.to_categorical(labels, 3),
    "tensor": keras.utils.to_categorical(keras.ops.convert_to_tensor(labels), 3).numpy(),
}
for name, rows in seen.items():
    print(f"{name + ':':7s} [{', '.join(map(str, rows))}]")
assert seen["array"].tolist() == [[1, 0, 0], [0, 0, 1]]
assert seen["tensor"].tolist() == [[1, 0, 0], [0, 0, 0]]
END
  cat "$folder/log" >&2
  exit 1
}
