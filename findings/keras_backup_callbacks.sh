#!/usr/bin/env bash
# After BackupAndRestore resumes a training, other callbacks begin again without their best values.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `BackupAndRestore` saves the weights, the optimizer and the number of the epoch, but no
#            state of other callbacks. `ModelCheckpoint(save_best_only=True)`, `EarlyStopping` and
#            `ReduceLROnPlateau` begin again without a best value.
# Surprise:  The first epoch after the stop counts as the best one. `ModelCheckpoint` replaces the
#            file of a better epoch, and the other two callbacks count their `patience` again.
# Output seen (val_loss 3, 1, 2, 2; the training stops before the third epoch):
#   without a stop: saved val_loss 1.0, best epoch 2, learning rate 0.001
#   with a stop: saved val_loss 2.0, best epoch 3, learning rate 0.01
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import os
import tempfile

import keras
import numpy as np

VAL_LOSSES = [3.0, 1.0, 2.0, 2.0]


class Validation(keras.callbacks.Callback):
    """Sets `val_loss`. It also sets the weight to `val_loss`, so the saved file shows it."""

    def __init__(self, stop_before=None):
        super().__init__()
        self.stop_before = stop_before

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.stop_before:
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch, logs=None):
        logs["val_loss"] = VAL_LOSSES[epoch]
        self.model.set_weights([np.full((1, 1), VAL_LOSSES[epoch])])


def fit(folder, stop_before=None):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    stopping = keras.callbacks.EarlyStopping(patience=9)
    path = os.path.join(folder, "best.keras")
    callbacks = [
        Validation(stop_before),
        stopping,
        keras.callbacks.ModelCheckpoint(path, save_best_only=True),
        keras.callbacks.ReduceLROnPlateau(patience=2),
        keras.callbacks.BackupAndRestore(os.path.join(folder, "backup")),
    ]
    x = np.zeros((1, 1))
    model.fit(x, x, epochs=len(VAL_LOSSES), callbacks=callbacks, verbose=0)
    saved = float(keras.models.load_model(path).get_weights()[0][0, 0])
    rate = round(float(model.optimizer.learning_rate), 6)
    return saved, stopping.best_epoch + 1, rate


def show(how, found):
    print(f"{how}: saved val_loss {found[0]}, best epoch {found[1]}, learning rate {found[2]}")
    return found


with tempfile.TemporaryDirectory() as folder:
    assert show("without a stop", fit(folder)) == (1.0, 2, 0.001)
with tempfile.TemporaryDirectory() as folder:
    try:
        fit(folder, stop_before=2)
    except KeyboardInterrupt:
        pass
    assert show("with a stop", fit(folder)) == (2.0, 3, 0.01)
END
  cat "$folder/log" >&2
  exit 1
}
