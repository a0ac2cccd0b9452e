#!/usr/bin/env bash
# `safetensors.numpy.save_file` writes wrong values for arrays that are views.
#
# Version:   safetensors 0.8.0, numpy 2.3.5
# Behaviour: `save_file` and `save` write the shape of an array and then its memory from the first
#            element on. For a transposed array, the file therefore has the elements in the order of
#            the original array. For an array with steps, it also contains skipped elements.
# Surprise:  there is no error and no warning. `save_file` of safetensors.torch raises an error for
#            such a tensor.
# Output seen:
#   [[0. 1. 2.], [3. 4. 5.]] transposed, saved and loaded: [[0. 1.], [2. 3.], [4. 5.]]
#   [0. 1. 2. 3. 4. 5.][::2], saved and loaded: [0. 1. 2.]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  safetensors==0.8.0 numpy==2.3.5
cd "$folder"
bin/python - <<'END'
import numpy as np
from safetensors import numpy as safetensors


def saved_and_loaded(array):
    safetensors.save_file({"array": array}, "array.safetensors")
    return safetensors.load_file("array.safetensors")["array"]


matrix = np.arange(6, dtype="float32").reshape(2, 3)
transposed = saved_and_loaded(matrix.T)
strided = saved_and_loaded(matrix.ravel()[::2])
shown = str(transposed).replace("\n", ",")
print(f"[[0. 1. 2.], [3. 4. 5.]] transposed, saved and loaded: {shown}")
print(f"[0. 1. 2. 3. 4. 5.][::2], saved and loaded: {strided}")
assert transposed.tolist() == [[0, 1], [2, 3], [4, 5]] != matrix.T.tolist()
assert strided.tolist() == [0, 1, 2]
assert saved_and_loaded(np.ascontiguousarray(matrix.T)).tolist() == matrix.T.tolist()
END
