#!/usr/bin/env bash
# `TimeDistributed` computes as many time steps as the batch has examples, if lengths vary.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: if the number of time steps is unknown when the layer is traced, `TimeDistributed` loops
#            over the numbers from 0 to the batch size. It omits all later time steps. `predict`
#            traces a second length with an unknown number of steps, so the first batch is right and
#            the second one is wrong. An exported function with an open length is wrong at once.
# Surprise:  there is no error and no warning. `Input([None, 4])` declares that lengths vary.
# Output seen:
#   predict_on_batch, 2 examples of 5 steps: (2, 5, 3)
#   predict_on_batch, 2 examples of 3 steps: (2, 2, 3)
#   tf.function with an open length, 2 examples of 5 steps: (2, 2, 3)
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential(
    [keras.Input([None, 4]), keras.layers.TimeDistributed(keras.layers.Dense(3))]
)
steps = np.ones([2, 5, 4], "float32")
function = tf.function(model, input_signature=[tf.TensorSpec([None, None, 4])])
seen = {
    "predict_on_batch, 2 examples of 5 steps": model.predict_on_batch(steps).shape,
    "predict_on_batch, 2 examples of 3 steps": model.predict_on_batch(steps[:, :3]).shape,
    "tf.function with an open length, 2 examples of 5 steps": tuple(function(steps).shape),
}
for name, shape in seen.items():
    print(f"{name}: {shape}")
assert [*seen.values()] == [(2, 5, 3), (2, 2, 3), (2, 2, 3)]
END
