#!/usr/bin/env bash
# With `workers=2`, each validation on a `PyDataset` continues where the previous one stopped.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: With `validation_steps`, the worker threads of a `PyDataset` load more batches than the
#            validation uses. Keras keeps the unused batches, and the next validation begins with
#            them. With `workers=1`, every validation uses the first batches.
# Surprise:  The documentation describes `workers` as a setting for speed. It changes the data of
#            all validations after the first one, so `val_loss` changes without training.
#            `EarlyStopping` and `ModelCheckpoint(save_best_only=True)` then compare results of
#            different data.
# Output seen (10 batches with the labels 0 to 9, 3 validation steps, no learning):
#   workers=1: mean label of each validation: [1.0, 1.0, 1.0]
#   workers=2: mean label of each validation: [1.0, 4.0, 7.0]
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


class Labels(keras.utils.PyDataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return np.zeros((1, 1)), np.full((1, 1), float(index))


model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", loss=lambda label, prediction: label + 0 * prediction)
x = np.zeros((1, 1))
seen = []
for workers in (1, 2):
    arguments = {"validation_data": Labels(workers=workers), "validation_steps": 3}
    seen.append(model.fit(x, x, **arguments, epochs=3, verbose=0).history["val_loss"])
    print(f"workers={workers}: mean label of each validation: {seen[-1]}")
assert seen == [[1.0, 1.0, 1.0], [1.0, 4.0, 7.0]]
END
  cat "$folder/log" >&2
  exit 1
}
