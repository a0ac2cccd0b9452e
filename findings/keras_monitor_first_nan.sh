#!/usr/bin/env bash
# If the first `val_loss` is NaN, callbacks never see an improvement.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `EarlyStopping`, `ModelCheckpoint(save_best_only=True)` and `ReduceLROnPlateau` take
#            the first value as the best one, even if it is NaN. Every comparison with NaN is False,
#            so all later values count as worse.
# Surprise:  The loss falls in every later epoch, but `EarlyStopping` ends the training and restores
#            the weights of the epoch with NaN. The file of `ModelCheckpoint` keeps these weights,
#            and the learning rate is reduced. Keras 2 began with an infinite best value.
# Output seen (val_loss nan, 4, 3, 2, 1 with patience=3; the learning rate begins at 0.01):
#   epochs: 4 of 5, best epoch: 1, saved epochs: [1], learning rate at the end: 0.001
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

val_losses = [np.nan, 4.0, 3.0, 2.0, 1.0]


class Validation(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        logs["val_loss"] = val_losses[epoch]


model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse")
stopping = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)
with tempfile.TemporaryDirectory() as folder:
    callbacks = [
        Validation(),
        stopping,
        keras.callbacks.ModelCheckpoint(
            os.path.join(folder, "{epoch}.weights.h5"), save_best_only=True, save_weights_only=True
        ),
        keras.callbacks.ReduceLROnPlateau(patience=3),
    ]
    x = np.zeros((1, 1))
    history = model.fit(x, x, epochs=len(val_losses), callbacks=callbacks, verbose=0)
    saved = sorted(int(name.split(".")[0]) for name in os.listdir(folder))
rate = round(float(model.optimizer.learning_rate), 6)
print(
    f"epochs: {len(history.epoch)} of {len(val_losses)}, best epoch: {stopping.best_epoch + 1}, "
    f"saved epochs: {saved}, learning rate at the end: {rate}"
)
assert (len(history.epoch), stopping.best_epoch, saved, rate) == (4, 0, [1], 0.001)
END
  cat "$folder/log" >&2
  exit 1
}
