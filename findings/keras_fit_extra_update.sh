#!/usr/bin/env bash
# Keras fit counts one optimizer step too many per epoch if the size of a dataset is unknown.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: at the end of a tf.data dataset of unknown size, the compiled train function starts
#            once more. In this extra step, operations that do not wait for a batch still run:
#            `optimizer.iterations` increases, although there is no gradient. With a known size, or
#            with run_eagerly=True, the count is correct.
# Surprise:  a `filter` in the input pipeline shifts the learning rate schedule and Adam's bias
#            correction. 3 epochs of 6 batches are 18 updates, but the optimizer counts 21. The
#            weights do not change in the extra step, so nothing else shows the error.
# Output seen:
#   batches seen by callbacks: 18
#   size known: optimizer.iterations = 18
#   size unknown: optimizer.iterations = 21
#   size unknown, run_eagerly=True: optimizer.iterations = 18
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - 2>"$folder/log" <<'END' || {
import keras
import numpy as np
import tensorflow as tf


class Counter(keras.callbacks.Callback):
    batches = 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1


def train(dataset, run_eagerly=False):
    """(batches that a callback saw, steps that the optimizer counted) of three epochs."""
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse", run_eagerly=run_eagerly)
    counter = Counter()
    model.fit(dataset, epochs=3, verbose=0, callbacks=[counter])
    return counter.batches, int(model.optimizer.iterations.numpy())


x = np.ones([6, 1], "float32")
known = tf.data.Dataset.from_tensor_slices((x, x)).batch(1)
unknown = known.filter(lambda x, y: tf.reduce_sum(x) > 0)  # keeps all
assert known.cardinality() == 6 and unknown.cardinality() == tf.data.UNKNOWN_CARDINALITY
seen = [train(known), train(unknown), train(unknown, run_eagerly=True)]
print("batches seen by callbacks:", seen[1][0])
print("size known: optimizer.iterations =", seen[0][1])
print("size unknown: optimizer.iterations =", seen[1][1])
print("size unknown, run_eagerly=True: optimizer.iterations =", seen[2][1])
assert seen == [(18, 18), (18, 21), (18, 18)]
END
  cat "$folder/log" >&2
  exit 1
}
