#!/usr/bin/env bash
# After `keras.utils.set_random_seed`, `fit` of arrays uses one order of examples in all epochs.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `fit` shuffles arrays with `tf.random.shuffle` inside `Dataset.map`. With a global
#            seed, each new iterator of the dataset samples the same permutation. Therefore the
#            batches of all epochs are equal.
# Surprise:  The documentation says that `shuffle=True` shuffles before each epoch. The seed should
#            make runs equal, not epochs. Without a seed, or with `Dataset.shuffle` and the same
#            seed, the orders differ. No warning.
# Output seen (examples 0 to 7, batches of 4):
#   arrays, no seed: 3 different orders in 3 epochs
#   arrays, set_random_seed(1): 1 different orders in 3 epochs
#   Dataset.shuffle, set_random_seed(1): 3 different orders in 3 epochs
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras
import numpy as np
import tensorflow as tf

seen = []


class Model(keras.Model):
    def call(self, x):
        tf.py_function(lambda batch: seen.extend(batch.numpy().ravel().tolist()), [x], [])
        return x


def orders(arguments, **options):
    seen.clear()
    model = Model()
    model.compile("sgd", "mse")
    model.fit(*arguments, epochs=3, verbose=0, **options)
    epochs = np.array(seen[-24:]).reshape(3, 8)
    assert (np.sort(epochs) == np.arange(8)).all()
    return len(np.unique(epochs, axis=0))


x = np.arange(8, dtype="float32")[:, None]
no_seed = orders([x, x], batch_size=4)
keras.utils.set_random_seed(1)
with_seed = orders([x, x], batch_size=4)
keras.utils.set_random_seed(1)
dataset = orders([tf.data.Dataset.from_tensor_slices((x, x)).shuffle(8).batch(4)])
print(f"arrays, no seed: {no_seed} different orders in 3 epochs")
print(f"arrays, set_random_seed(1): {with_seed} different orders in 3 epochs")
print(f"Dataset.shuffle, set_random_seed(1): {dataset} different orders in 3 epochs")
assert (no_seed, with_seed, dataset) == (3, 1, 3)
END
  cat "$folder/log" >&2
  exit 1
}
