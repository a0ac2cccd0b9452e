#!/usr/bin/env bash
# `SwapEMAWeights` leaves the wrong weights after `predict`, and after training that stops early.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: The callback puts the averaged weights into the model and later restores the trained
#            weights. After `evaluate` it restores them, after `predict` it does not. With
#            `swap_on_epoch=True`, `fit` should end with the averaged weights. If another callback
#            stops training before the last epoch, it ends with the trained weights instead.
# Surprise:  A prediction should not change a model. Early stopping is the usual reason to evaluate
#            averaged weights after each epoch, and exactly then the averages are lost.
# Output seen (first weight):
#   trained 0.0276, averaged -0.3123
#   after evaluate with the callback: 0.0276
#   after predict with the callback: -0.3123
#   fit of 3 epochs: 0.127, stopped after 3 of 10 epochs: 0.6241
#   the same without the callback: 0.127, stopped: 0.127
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
y = x @ np.ones((3, 1), "float32")


def make():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.9), "mse")
    return model


def weight(model):
    return round(float(model.get_weights()[0][0, 0]), 4)


class StopAfterThree(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = epoch == 2


def fitted(epochs, *callbacks):
    model = make()
    model.fit(
        x, y, batch_size=16, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks)
    )
    return weight(model)


model = make()
for start in range(0, 64, 16):
    model.train_on_batch(x[start : start + 16], y[start : start + 16])
trained, averaged = weight(model), fitted(1)  # `fit` ends with the averaged weights
print(f"trained {trained}, averaged {averaged}")
model.evaluate(x, y, verbose=0, callbacks=[keras.callbacks.SwapEMAWeights()])
after_evaluate = weight(model)
print(f"after evaluate with the callback: {after_evaluate}")
model.predict(x, verbose=0, callbacks=[keras.callbacks.SwapEMAWeights()])
after_predict = weight(model)
print(f"after predict with the callback: {after_predict}")
swapping = [keras.callbacks.SwapEMAWeights(swap_on_epoch=True) for _ in range(2)]
complete, stopped = fitted(3, swapping[0]), fitted(10, swapping[1], StopAfterThree())
print(f"fit of 3 epochs: {complete}, stopped after 3 of 10 epochs: {stopped}")
plain, plain_stopped = fitted(3), fitted(10, StopAfterThree())
print(f"the same without the callback: {plain}, stopped: {plain_stopped}")
assert after_evaluate == trained and after_predict == averaged != trained
assert complete == plain == plain_stopped != stopped
END
