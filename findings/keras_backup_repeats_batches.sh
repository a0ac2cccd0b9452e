#!/usr/bin/env bash
# Keras' BackupAndRestore(save_freq=n) trains on the first batches of an epoch twice after a stop.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: with an integer save_freq, the weights and the optimizer are saved in the middle of an
#            epoch, but the position in the epoch is not saved. The next `fit` restores the newest
#            weights and begins the epoch again. save_freq="epoch" restores the weights from the
#            beginning of the epoch and repeats nothing.
# Surprise:  saving more often makes the result less exact. The restored weights are trained a second
#            time on batches from which they have already learned. `optimizer.iterations` counts
#            these batches twice.
# Output seen (3 epochs of 8 batches, stopped after batch 10):
#   never stopped: 24 steps, trained on each example: [3, 3, 3, 3, 3, 3, 3, 3]
#   save_freq='epoch': 24 steps, trained on each example: [3, 3, 3, 3, 3, 3, 3, 3]
#   save_freq=5: 26 steps, trained on each example: [4, 4, 3, 3, 3, 3, 3, 3]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - "$folder" \
  2>"$folder/log" <<'END' || {
import os
import sys

import keras
import numpy as np


class StopAfter(keras.callbacks.Callback):
    """Ends the first run as Ctrl-C would."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_train_batch_end(self, batch, logs=None):
        self.batches -= 1
        if not self.batches:
            raise KeyboardInterrupt


def fit(save_freq, folder, stop=()):
    """One weight an example and a gradient of -1: a weight counts how often it was trained on."""
    model = keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
    )
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss=lambda y, prediction: -prediction)
    backup = [keras.callbacks.BackupAndRestore(folder, save_freq=save_freq)] if folder else []
    data = np.eye(8, dtype="float32")
    callbacks = [*backup, *stop]
    model.fit(data, data[:, :1], batch_size=1, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
    times = model.get_weights()[0].ravel().round().astype(int).tolist()
    return int(model.optimizer.iterations.numpy()), times


def show(name, seen):
    print(f"{name}: {seen[0]} steps, trained on each example: {seen[1]}")
    return seen


assert show("never stopped", fit(None, None)) == (24, [3] * 8)
for save_freq, expected in (("epoch", (24, [3] * 8)), (5, (26, [4] * 2 + [3] * 6))):
    folder = os.path.join(sys.argv[1], f"backup_{save_freq}")
    try:
        fit(save_freq, folder, [StopAfter(10)])
        sys.exit("the first run must stop")
    except KeyboardInterrupt:
        pass
    assert show(f"save_freq={save_freq!r}", fit(save_freq, folder)) == expected
END
  cat "$folder/log" >&2
  exit 1
}
