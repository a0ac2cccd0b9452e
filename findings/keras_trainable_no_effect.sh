#!/usr/bin/env bash
# `model.trainable = True` unfreezes nothing if the layers were frozen one by one.
#
# Version:   keras 3.15.1 with the TensorFlow backend, tensorflow 2.21.0
# Behaviour: If an attribute of a layer already has the assigned value, the assignment does nothing.
#            The same holds for `trainable`, whose setter should also set the value in all sublayers.
#            If each layer was frozen by itself, `trainable` of the model is still True.
#            With the JAX backend, the assignment unfreezes all layers.
# Surprise:  In fine-tuning, one often freezes some layers in a loop, trains the others, and then
#            sets `model.trainable = True`. Here, `compile` and `fit` run without a warning, and the
#            frozen layers are never trained. `False` has the same fault: layers that were unfrozen
#            inside a frozen model stay trainable after another `model.trainable = False`.
# Output seen:
#   tensorflow: model.trainable is True, weights that fit changes: 2 of 4
#   jax: model.trainable is True, weights that fit changes: 4 of 4
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0 jax==0.10.2
cat > "$folder/fine_tune.py" <<'END'
import sys

import keras
import numpy as np

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.layers[0].trainable = False  # first, only the last layer is trained
x, y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
model.compile("sgd", "mse")
model.fit(x, y, verbose=0)

model.trainable = True  # then all layers
before = model.get_weights()
model.compile("sgd", "mse")
model.fit(x, y, verbose=0)
changed = sum((a != b).any() for a, b in zip(before, model.get_weights()))
print(
    f"{keras.backend.backend()}: model.trainable is {model.trainable}, "
    f"weights that fit changes: {changed} of {len(before)}"
)
assert model.trainable and changed == int(sys.argv[1])
END
export TF_CPP_MIN_LOG_LEVEL=3
KERAS_BACKEND=tensorflow "$folder/bin/python" "$folder/fine_tune.py" 2 2>/dev/null
KERAS_BACKEND=jax "$folder/bin/python" "$folder/fine_tune.py" 4 2>/dev/null
