#!/usr/bin/env bash
# `tf.train.Checkpoint` omits layers that a Keras model keeps in a list or dict.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: Keras replaces a list, dict or set in an attribute of a model by its own class. A
#            checkpoint of TensorFlow does not follow this class, so it omits the weights of all
#            layers in such a list, dict or set. It saves layers in a tuple.
# Surprise:  neither `save` nor `restore` prints a warning. The assertions `assert_consumed` and
#            `assert_existing_objects_matched` pass too. The restored model keeps its random
#            weights. `model.trainable_variables` and `model.save_weights` include these layers.
# Output seen, restored weights of two layers in an attribute:
#   list: 0 of 2 restored, assertions passed
#   dict: 0 of 2 restored, assertions passed
#   tuple: 2 of 2 restored, assertions passed
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
import tensorflow as tf

CONTAINERS = {
    "list": lambda layers: layers,
    "dict": lambda layers: dict(zip("ab", layers)),
    "tuple": tuple,
}


class Model(keras.Model):
    def __init__(self, container):
        super().__init__()
        self.blocks = CONTAINERS[container]([keras.layers.Dense(3), keras.layers.Dense(3)])

    def call(self, x):
        blocks = self.blocks.values() if hasattr(self.blocks, "values") else self.blocks
        for block in blocks:
            x = block(x)
        return x


def kernels(model):
    return [variable.numpy() for variable in model.trainable_variables if "kernel" in variable.path]


seen = {}
for container in CONTAINERS:
    saved, restored = Model(container), Model(container)
    for model in (saved, restored):
        model(np.ones([1, 3]))
    path = tf.train.Checkpoint(model=saved).save(f"checkpoints/{container}")
    status = tf.train.Checkpoint(model=restored).restore(path)
    status.assert_existing_objects_matched()
    status.assert_consumed()
    pairs = list(zip(kernels(saved), kernels(restored), strict=True))
    seen[container] = sum(np.array_equal(*pair) for pair in pairs)
    print(f"{container}: {seen[container]} of {len(pairs)} restored, assertions passed")
assert seen == {"list": 0, "dict": 0, "tuple": 2}
END
