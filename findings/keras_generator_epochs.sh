#!/usr/bin/env bash
# From the second epoch on, Keras' fit validates only on the first two batches of a generator.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `fit` reads two batches of a generator to learn their shapes, and keeps them. If
#            `validation_steps` is not set, the first validation uses all batches. Each later
#            validation uses the two batches again, because the generator has no others. `fit` trains
#            on a generator in the same way if `steps_per_epoch` is not set. The only sign is the
#            warning "Your input ran out of data". Keras also shows this warning in the first epoch,
#            which is complete. With `validation_steps`, each validation also begins with these two
#            batches, and there is no warning.
# Surprise:  the generator is exhausted, but Keras still finds two batches, so validation seems to
#            work. The results of later epochs are for other data than the result of the first.
# Output seen (5 batches, labels 0 to 4, no learning):
#   array: mean label of each validation: [2.0, 2.0, 2.0]
#   generator: mean label of each validation: [2.0, 0.5, 0.5]
#   generator, 2 steps: mean label of each validation: [0.5, 0.5, 0.5]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras
import numpy as np


def batches():
    for label in range(5):
        yield np.zeros((1, 1), "float32"), np.full((1, 1), label, "float32")


def show(name, validation_data, steps=None):
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", loss=lambda label, prediction: label + 0 * prediction)
    x, y = np.zeros((1, 1), "float32"), np.zeros((1, 1), "float32")
    arguments = {"validation_data": validation_data, "validation_steps": steps}
    history = model.fit(x, y, **arguments, epochs=3, verbose=0).history
    print(f"{name}: mean label of each validation: {history['val_loss']}")
    return history["val_loss"]


arrays = [np.concatenate(part) for part in zip(*batches())]
assert show("array", tuple(arrays)) == [2.0, 2.0, 2.0]
assert show("generator", batches()) == [2.0, 0.5, 0.5]
assert show("generator, 2 steps", batches(), steps=2) == [0.5, 0.5, 0.5]
END
  cat "$folder/log" >&2
  exit 1
}
