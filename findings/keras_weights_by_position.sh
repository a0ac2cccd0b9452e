#!/usr/bin/env bash
# `load_weights` exchanges the weights of layers in a dict if the dict has another order.
#
# Version:   keras 3.15.1
# Behaviour: for layers in a dict, a weights file contains the position of each layer instead of its
#            key. `load_weights` reads the file in the order of the new dict.
# Surprise:  keys and names of the layers are the same in both models, but each layer gets the weights
#            of the other one, without an error. The order of a dict is easily changed: if its keys
#            come from a set of strings, it differs from process to process.
# Output seen:
#   saved: {'german': 1.0, 'french': 2.0}
#   loaded: {'french': 1.0, 'german': 2.0}
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 bin/python - 2>/dev/null <<'END'
import keras
import numpy as np


class Model(keras.Model):
    def __init__(self, languages):
        super().__init__()
        self.heads = {name: keras.layers.Dense(1, name=name) for name in languages}

    def call(self, x):
        return {name: head(x) for name, head in self.heads.items()}

    def kernels(self):
        return {name: float(head.kernel.numpy()[0, 0]) for name, head in self.heads.items()}


saved, loaded = Model(["german", "french"]), Model(["french", "german"])
for model in (saved, loaded):
    model(np.ones([1, 1]))
saved.heads["german"].kernel.assign([[1.0]])
saved.heads["french"].kernel.assign([[2.0]])
saved.save_weights("saved.weights.h5")
loaded.load_weights("saved.weights.h5")
print(f"saved: {saved.kernels()}")
print(f"loaded: {loaded.kernels()}")
assert saved.kernels() == {"german": 1, "french": 2}
assert loaded.kernels() == {"french": 1, "german": 2}
END
