#!/usr/bin/env bash
# `CSVLogger(append=True)` writes the numbers of a resumed run under the names of other metrics.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: A resumed run writes its metrics in alphabetical order and does not read the header of
#            the file. If it has one more metric than the first run, or one less, the numbers move
#            to other columns.
# Surprise:  `append` is meant for resumed training. There is no error and no warning. A plot of the
#            column `val_loss` continues with the values of another metric.
# Output seen (metrics `mae`, then `acc` and `mae`; in both runs, the loss is 4 and `mae` is 2):
#   epoch,loss,mae,val_loss,val_mae
#   0,4.0,2.0,4.0,2.0
#   0,0.0,4.0,2.0,0.0,4.0,2.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import csv
import os
import tempfile

import keras
import numpy as np


def train(path, metrics, append):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=metrics)
    logger = keras.callbacks.CSVLogger(path, append=append)
    x, y = np.zeros((1, 1)), np.full((1, 1), 2.0)
    model.fit(x, y, validation_data=(x, y), callbacks=[logger], verbose=0)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "log.csv")
    train(path, ["mae"], append=False)
    train(path, ["acc", "mae"], append=True)
    with open(path) as file:
        text = file.read()
lines = text.split()
for line in lines:
    print(line)
header, first, second = (line.split(",") for line in lines)
assert header == ["epoch", "loss", "mae", "val_loss", "val_mae"]
first, second = (dict(zip(header, row)) for row in (first, second))
assert first["val_loss"] == "4.0"
assert second["val_loss"] == "2.0"  # this is the mean absolute error; the loss is still 4
END
  cat "$folder/log" >&2
  exit 1
}
