#!/usr/bin/env bash
# `KerasFileEditor` drops the weights of layers inside layers.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `KerasFileEditor(path).resave_weights(…)` writes the weights of a `.weights.h5` or
#            `.keras` file without the weights of inner layers, such as the eight weights of
#            `MultiHeadAttention`. For the same reason, `compare` reports errors for the model that
#            wrote the file.
# Surprise:  The class is for inspecting and repairing weight files. If it opens a file and saves it
#            without a change, the model cannot load the copy. With `load_weights(…,
#            skip_mismatch=True)`, the inner layers keep their random weights.
# Output seen (MultiHeadAttention and Dense, 10 weights):
#   the file has 10 weights, the saved copy has 2
#   compare: {'status': 'error', 'error_count': 2, 'match_count': 2}
#   load_weights of the copy: A total of 4 objects could not be loaded. …
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import contextlib
import io
import os
import tempfile

import h5py
import keras


def count(path):
    found = []
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.append(name) if hasattr(item, "dtype") else None)
    return len(found)


inputs = keras.Input((3, 2))
attention = keras.layers.MultiHeadAttention(1, 2)(inputs, inputs)
model = keras.Model(inputs, keras.layers.Dense(1)(attention))
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    path, copy = os.path.join(folder, "a.weights.h5"), os.path.join(folder, "b.weights.h5")
    model.save_weights(path)
    editor = keras.saving.KerasFileEditor(path)
    compared = editor.compare(model)
    editor.resave_weights(copy)
    counts = count(path), count(copy)
    try:
        model.load_weights(copy)
        error = None
    except ValueError as caught:
        error = str(caught)
print(f"the file has {counts[0]} weights, the saved copy has {counts[1]}")
print(f"compare: {compared}")
print(f"load_weights of the copy: {error.split('Example')[0]}…")
assert counts == (10, 2) and error
END
  cat "$folder/log" >&2
  exit 1
}
