#!/usr/bin/env bash
# Keras loads the weights of a larger model into a smaller one without an error.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `load_weights` reads a weight from the file for each weight of the model. It does not check
#            whether the file contains more weights. A model with two `Dense` layers loads a
#            `.weights.h5` or `.keras` file of three layers, without an error and without a warning.
#            In the opposite direction, a file with too few layers raises an error.
# Surprise:  the loaded model has trained weights, but computes another function than the saved model.
#            The documentation of `load_weights` says that the models should have the same
#            architecture, and that `skip_mismatch=True` is required to ignore errors.
# Output seen:
#   2 layers from a .weights.h5 file of 3 layers: loaded, 0 warnings
#   2 layers from a .keras file of 3 layers: loaded, 0 warnings
#   3 layers from a .weights.h5 file of 2 layers: ValueError
#   first 2 layers equal the saved layers: True
#   outputs equal those of the saved model: False
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - "$folder" 2>/dev/null <<'END'
import sys
import warnings

import keras
import numpy as np

X = np.array([[1.0, 2.0]], np.float32)


def new_model(layers):
    return keras.Sequential([keras.Input((2,)), *(keras.layers.Dense(2) for _ in range(layers))])


def load(path, layers):
    """Load a file into a new model. Return what happens, and the model."""
    model = new_model(layers)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.load_weights(path)
        except ValueError as error:
            return type(error).__name__, model
    return f"loaded, {len(caught)} warnings", model


folder = sys.argv[1]
saved = new_model(3)
weights_file, keras_file = f"{folder}/large.weights.h5", f"{folder}/large.keras"
small_file = f"{folder}/small.weights.h5"
saved.save_weights(weights_file)
saved.save(keras_file)
new_model(2).save_weights(small_file)

from_weights, model = load(weights_file, 2)
from_keras, _ = load(keras_file, 2)
too_few, _ = load(small_file, 3)
first_equal = all(map(np.array_equal, model.get_weights(), saved.get_weights()))
outputs_equal = np.allclose(model(X), saved(X))
print("2 layers from a .weights.h5 file of 3 layers:", from_weights)
print("2 layers from a .keras file of 3 layers:", from_keras)
print("3 layers from a .weights.h5 file of 2 layers:", too_few)
print("first 2 layers equal the saved layers:", first_equal)
print("outputs equal those of the saved model:", outputs_equal)
assert from_weights == from_keras == "loaded, 0 warnings" and too_few == "ValueError"
assert first_equal and not outputs_equal
END
