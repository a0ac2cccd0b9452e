#!/usr/bin/env bash
# `EarlyStopping(restore_best_weights=True)` undoes the moving average of `use_ema=True`.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: with `use_ema=True`, `fit` replaces the weights by their moving average at its end. Then
#            it calls `on_train_end` of the callbacks. There, `EarlyStopping` restores the weights of
#            the best epoch, which are not averaged. It does so also if training was not stopped.
# Surprise:  the model has no averaged weights after `fit`, without a warning. `EarlyStopping`
#            without `restore_best_weights` leaves the moving average in the model.
# Output seen, a weight that starts at 0 and learns 2 in five updates:
#   moving average, without a callback: 0.63472
#   with EarlyStopping: 0.63472
#   with EarlyStopping(restore_best_weights=True): 1.34464
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np


def weight_after_fit(**stopping):
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input([1]), dense])
    model.compile(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9), "mse")
    callbacks = [keras.callbacks.EarlyStopping(**stopping)] if stopping else []
    x = np.ones([4, 1])
    model.fit(x, 2 * x, validation_data=(x, 2 * x), epochs=5, verbose=0, callbacks=callbacks)
    return float(model.get_weights()[0][0, 0])


average = weight_after_fit()
stopped = weight_after_fit(monitor="val_loss", patience=9)
restored = weight_after_fit(monitor="val_loss", patience=9, restore_best_weights=True)
print(f"moving average, without a callback: {average:.5f}")
print(f"with EarlyStopping: {stopped:.5f}")
print(f"with EarlyStopping(restore_best_weights=True): {restored:.5f}")
assert abs(average - 0.63472) < 1e-4 and stopped == average
assert abs(restored - 1.34464) < 1e-4
END
