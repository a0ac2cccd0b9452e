#!/usr/bin/env bash
# Clipping does not bound the gradient of an embedding if a batch contains a token several times.
#
# Version:   tensorflow 2.21.0, keras 3.15.1
# Behaviour: the gradient of `tf.gather` or of an `Embedding` is a `tf.IndexedSlices`, which has one row
#            for each token of the batch. `tf.clip_by_norm`, `tf.clip_by_global_norm` and the arguments
#            `clipnorm`, `global_clipnorm` and `clipvalue` of Keras clip these rows. Only the update
#            adds the rows of equal tokens.
# Surprise:  the clipped gradient is larger than the bound, although Keras documents that its norm "is
#            no higher than this value". Below, a token occurs 16 times and the bound is 1. The norm of
#            the clipped gradient is 4, and `clipvalue` does not clip at all. The same gradient as a
#            dense tensor is clipped correctly.
# Output seen:
#   norm of the gradient: 16.0
#   tf.clip_by_global_norm, dense gradient: 1.0
#   tf.clip_by_global_norm, gradient of tf.gather: 4.0
#   tf.clip_by_norm, gradient of tf.gather: 4.0
#   update by Keras with clipnorm=1.0: 4.0
#   update by Keras with global_clipnorm=1.0: 4.0
#   update by Keras with clipvalue=1.0: 16.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np
import tensorflow as tf

TOKENS = np.full([1, 16], 2)


def norm(gradient):
    return float(tf.norm(tf.convert_to_tensor(gradient)))


def update(**clip):
    """Return the norm of the update that Keras makes with learning rate 1."""
    embedding = keras.layers.Embedding(3, 1, embeddings_initializer="zeros")
    model = keras.Sequential([embedding, keras.layers.Flatten()])
    loss = lambda _, outputs: keras.ops.sum(outputs, axis=-1)
    model.compile(keras.optimizers.SGD(1.0, **clip), loss=loss)
    model.fit(TOKENS, np.zeros([1, 16]), verbose=0)
    return float(np.linalg.norm(model.get_weights()[0]))


table = tf.Variable(tf.zeros([3, 1]))
with tf.GradientTape() as tape:
    outputs = tf.gather(table, TOKENS)
rows = tape.gradient(outputs, table)
dense = tf.convert_to_tensor(rows)
results = {
    "norm of the gradient": norm(rows),
    "tf.clip_by_global_norm, dense gradient": norm(tf.clip_by_global_norm([dense], 1.0)[0][0]),
    "tf.clip_by_global_norm, gradient of tf.gather": norm(tf.clip_by_global_norm([rows], 1.0)[0][0]),
    "tf.clip_by_norm, gradient of tf.gather": norm(tf.clip_by_norm(rows, 1.0)),
}
for name in ("clipnorm", "global_clipnorm", "clipvalue"):
    results[f"update by Keras with {name}=1.0"] = update(**{name: 1.0})
for name, value in results.items():
    print(f"{name}: {value}")
assert update() == 16.0
assert [round(value, 3) for value in results.values()] == [16.0, 1.0, 4.0, 4.0, 4.0, 4.0, 16.0]
END
