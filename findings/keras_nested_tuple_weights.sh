#!/usr/bin/env bash
# Keras before 3.15 does not save the weights of layers in nested tuples, and does not warn.
#
# Version:   keras 3.14.0 with jax 0.7.2 (3.15.1 saves them)
# Behaviour: a layer stores its sublayers as (("first", layer), ("second", layer)). Keras tracks them:
#            `model.weights` contains their weights, and training updates them.
#            `model.save("model.keras")` does not write these weights, and `load_model` returns new
#            random weights.
# Surprise:  saving and loading succeed without an error or a warning, also with warnings as errors.
#            The loaded model computes other outputs.
# Output seen:
#   weights of the model: 4
#   weights in the file: 0
#   loaded model computes the same: False
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.14.0 jax==0.7.2 numpy==2.3.5 h5py==3.15.1
KERAS_BACKEND=jax "$folder/bin/python" -W error - "$folder" <<'END'
import io
import os
import sys
import zipfile

import h5py
import keras
import numpy as np


@keras.saving.register_keras_serializable()
class Stack(keras.layers.Layer):
    """Two layers with a name each."""

    def __init__(self, **options):
        super().__init__(**options)
        self.parts = (("first", keras.layers.Dense(3)), ("second", keras.layers.Dense(3)))

    def build(self, shape):
        for _, layer in self.parts:
            layer.build(shape)

    def call(self, x):
        for _, layer in self.parts:
            x = layer(x)
        return x


model = keras.Sequential([keras.layers.Input((3,)), Stack()])
print("weights of the model:", len(model.weights))
assert len(model.weights) == 4
path = os.path.join(sys.argv[1], "model.keras")
model.save(path)
arrays = []
with zipfile.ZipFile(path) as archive:
    content = io.BytesIO(archive.read("model.weights.h5"))
with h5py.File(content) as file:
    file.visititems(lambda name, item: arrays.append(name) if hasattr(item, "shape") else None)
print("weights in the file:", len(arrays))
loaded = keras.models.load_model(path)
x = np.ones([1, 3], "float32")
same = np.allclose(model.predict(x, verbose=0), loaded.predict(x, verbose=0))
print("loaded model computes the same:", same)
assert not arrays and not same
END
