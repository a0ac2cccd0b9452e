#!/usr/bin/env bash
# After `load_weights`, the LoRA weights of a Keras layer are all zero and are never trained.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `enable_lora` initializes the matrix A with random numbers and the matrix B with zeros.
#            `load_weights` and `load_model` set both matrices to zero. The gradient of A is a
#            product with B, and the gradient of B is a product with A. So both gradients are zero,
#            and both matrices remain zero. The kernel is frozen, so only the bias can change.
# Surprise:  `fit` raises no error and reports a loss. If weights are loaded before `enable_lora`, the
#            model is trained. With SGD, a training that resumes from a `.keras` file does not
#            change the LoRA weights either.
# Output seen (loss of the first and the last of 20 epochs):
#   load_weights, then enable_lora: 6.12 -> 0.00
#   enable_lora, then load_weights: 8.72 -> 8.72
#   fit with SGD, save, load_model, fit: largest change of a LoRA weight is 0.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - "$folder" \
  2>"$folder/log" <<'END' || {
import sys

import keras
import numpy as np

weights, file = sys.argv[1] + "/model.weights.h5", sys.argv[1] + "/model.keras"
keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
x = rng.normal(size=(256, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1))).astype("float32")


def model():
    layers = [keras.Input((8,)), keras.layers.Dense(1, use_bias=False)]
    return keras.Sequential(layers)


def losses(model):
    model.compile(keras.optimizers.Adam(0.05), "mse")
    return model.fit(x, y, epochs=20, verbose=0).history["loss"]


model().save_weights(weights)
loaded_first, loaded_last = model(), model()
loaded_first.load_weights(weights)
for each in (loaded_first, loaded_last):
    each.layers[0].enable_lora(4)
loaded_last.load_weights(weights)
seen = [losses(loaded_first), losses(loaded_last)]
print(f"load_weights, then enable_lora: {seen[0][0]:.2f} -> {seen[0][-1]:.2f}")
print(f"enable_lora, then load_weights: {seen[1][0]:.2f} -> {seen[1][-1]:.2f}")
assert seen[0][-1] < 0.1 * seen[0][0] and abs(seen[1][-1] - seen[1][0]) < 1e-3

saved = model()
saved.layers[0].enable_lora(4)
saved.compile(keras.optimizers.SGD(0.05), "mse")
saved.fit(x, y, epochs=2, verbose=0)
saved.save(file)
loaded = keras.models.load_model(file)
before = [v.numpy() for v in loaded.trainable_variables]
loaded.fit(x, y, epochs=2, verbose=0)
assert [v.name for v in loaded.trainable_variables] == ["lora_kernel_a", "lora_kernel_b"]
after = [v.numpy() for v in loaded.trainable_variables]
change = max(float(np.abs(a - b).max()) for a, b in zip(after, before))
print(f"fit with SGD, save, load_model, fit: largest change of a LoRA weight is {change}")
assert change == 0
END
  cat "$folder/log" >&2
  exit 1
}
