#!/usr/bin/env bash
# `RMSNormalization(axis=1)` multiplies the last axis by the scale of axis 1.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: The layer normalizes along axis 1, and its scale has one number for each index of this
#            axis. But the layer does not move the scale to axis 1, so it multiplies the last axis by
#            the scale. If the two axes have the same size, the result is wrong. If the last axis has
#            size 1, the output has another shape. For other sizes, the layer raises an error.
#            `LayerNormalization(axis=1)` is correct.
# Surprise:  A new layer looks correct, because its scale is all ones. Only training shows the fault.
# Output seen (largest difference from the formula):
#   LayerNormalization: 0.00
#   RMSNormalization: 5.60
#   shape of an input (2, 4, 1): (2, 4, 4)
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(2, 4, 4)).astype("float32")
scale = np.array([1, 2, 3, 4], "float32")
along_axis = scale[None, :, None]


def difference(layer, expected):
    layer.build(x.shape)
    layer.set_weights([scale, 0 * scale][: len(layer.weights)])
    return np.abs(np.asarray(layer(x)) - expected).max()


mean, variance = x.mean(1, keepdims=True), x.var(1, keepdims=True)
square = (x**2).mean(1, keepdims=True)
of_layer = difference(
    keras.layers.LayerNormalization(axis=1), along_axis * (x - mean) / np.sqrt(variance + 1e-3)
)
of_rms = difference(keras.layers.RMSNormalization(axis=1), along_axis * x / np.sqrt(square + 1e-6))
print(f"LayerNormalization: {of_layer:.2f}")
print(f"RMSNormalization: {of_rms:.2f}")
shape = tuple(keras.layers.RMSNormalization(axis=1)(x[:, :, :1]).shape)
print("shape of an input (2, 4, 1):", shape)
assert of_layer < 1e-5 and of_rms > 1 and shape == (2, 4, 4)
END
