#!/usr/bin/env bash
# Keras loads a model without the weights of its `Dense` layers, and raises no error.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: to build a subclass of `keras.Model` from a file, `load_model` calls it with symbolic
#            floats, whatever the dtype of the input was. If this call fails, for example because
#            `tf.one_hot` requires ints, Keras catches the error. `Dense`, `Embedding`, `EinsumDense`
#            and convolutions that are not built then skip their weights in the file. They get random
#            weights at the first call.
# Surprise:  `load_model` returns a model with random weights. The only sign is a warning that the model
#            cannot be built automatically. It does not say that weights are lost. The documentation
#            says that `load_model` restores the weights.
# Output seen:
#   input of floats: 0 warnings, outputs of the loaded model equal: True
#   input of ids: 1 warnings, outputs of the loaded model equal: False
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
import tensorflow as tf


@keras.saving.register_keras_serializable("example")
class OfFloats(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(2)

    def call(self, x):
        return self.dense(x)


@keras.saving.register_keras_serializable("example")
class OfIds(OfFloats):
    def call(self, ids):
        return self.dense(tf.one_hot(ids, 5))


def load(cls, x):
    """Save a model and load it. Return what happens."""
    model, path = cls(), f"{sys.argv[1]}/model.keras"
    outputs = model(x)
    model.save(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded = keras.models.load_model(path)
    equal = np.allclose(loaded(x), outputs)
    return f"{len(caught)} warnings, outputs of the loaded model equal: {equal}"


floats = load(OfFloats, np.ones([1, 3], np.float32))
ids = load(OfIds, np.array([[1, 2, 3]]))
print("input of floats:", floats)
print("input of ids:", ids)
assert floats.endswith("True") and ids.endswith("False")
END
