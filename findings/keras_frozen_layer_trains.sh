#!/usr/bin/env bash
# `MultiHeadAttention(…, trainable=False)` is trained.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `trainable=False` freezes only weights and inner layers that exist at this time.
#            `MultiHeadAttention` makes its inner layers when it is built. `Bidirectional` and
#            `TimeDistributed` store their inner layers later in the constructor. All these layers
#            stay trainable, so `fit` changes their weights. `layer.trainable = False` before
#            `MultiHeadAttention` is built has the same effect. If this layer was frozen correctly,
#            it is trained after `load_model`, because `load_model` passes `trainable=False` to the
#            constructor.
# Surprise:  `layer.trainable` is False and `layer.trainable_variables` is empty, but
#            `model.trainable_variables` contains the weights.
# Output seen (weights of the layer that one `fit` changes):
#   MultiHeadAttention, trainable=False:       layer.trainable False, 0 listed, 8 of 8 changed
#   Bidirectional, trainable=False:            layer.trainable False, 0 listed, 6 of 6 changed
#   TimeDistributed, trainable=False:          layer.trainable False, 0 listed, 2 of 2 changed
#   Dense, trainable=False:                    layer.trainable False, 0 listed, 0 of 2 changed
#   MultiHeadAttention, frozen after building: layer.trainable False, 0 listed, 0 of 8 changed
#   the same after save and load_model:        layer.trainable False, 0 listed, 8 of 8 changed
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

x = np.random.default_rng(1).normal(size=(4, 3, 2))


def train(name, model, layer):
    before = layer.get_weights()
    model.compile("sgd", "mse")
    model.fit(x, x[..., :1], verbose=0)
    changed = sum(
        not np.array_equal(a, b) for a, b in zip(before, layer.get_weights(), strict=True)
    )
    listed = len(layer.trainable_variables)
    print(
        f"{name + ':':42s} layer.trainable {layer.trainable}, {listed} listed, "
        f"{changed} of {len(before)} changed"
    )
    assert not layer.trainable and not listed
    return changed


def model_of(layer):
    inputs = keras.Input((3, 2))
    is_attention = isinstance(layer, keras.layers.MultiHeadAttention)
    outputs = layer(inputs, inputs) if is_attention else layer(inputs)
    return keras.Model(inputs, keras.layers.Dense(1)(outputs))


frozen = {
    "MultiHeadAttention": (keras.layers.MultiHeadAttention(1, 2, trainable=False), 8),
    "Bidirectional": (
        keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True), trainable=False),
        6,
    ),
    "TimeDistributed": (
        keras.layers.TimeDistributed(keras.layers.Dense(2), trainable=False),
        2,
    ),
    "Dense": (keras.layers.Dense(2, trainable=False), 0),
}
for name, (layer, changed) in frozen.items():
    assert train(f"{name}, trainable=False", model_of(layer), layer) == changed
layer = keras.layers.MultiHeadAttention(1, 2)
model = model_of(layer)
layer.trainable = False
assert train("MultiHeadAttention, frozen after building", model, layer) == 0
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
assert train("the same after save and load_model", loaded, loaded.layers[1]) == 8
END
  cat "$folder/log" >&2
  exit 1
}
