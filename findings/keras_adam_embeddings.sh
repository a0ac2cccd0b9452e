#!/usr/bin/env bash
# Adam changes an embedding too much if a batch contains a token several times.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: with the TensorFlow backend, the gradient of an `Embedding` is a `tf.IndexedSlices`, which
#            has one row for each token of the batch. The optimizers square each row and add the
#            squares. The gradient of a token is the sum of its rows, so its square is the square of
#            the sum. Nine optimizers are affected.
# Surprise:  the first update of Adam with learning rate .1 should change each weight by at most .1. If
#            a token occurs 16 times in the batch, its row changes by .4. The same layer as a product
#            with one-hot vectors, whose gradient is dense, changes by .1.
# Output seen:
#   change of a row by Adam, its token occurs 1, 4, 16 times: [0.1, 0.2, 0.4]
#   the same layer with one-hot vectors: [0.1, 0.1, 0.1]
#   with and without tf.IndexedSlices the same: Adamax, Lion, Muon, SGD
#   different: Adadelta, Adafactor, Adagrad, Adam, AdamW, Ftrl, Lamb, Nadam, RMSprop
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np
import tensorflow as tf

OPTIMIZERS = """
    Adadelta Adafactor Adagrad Adam AdamW Adamax Ftrl Lamb Lion Muon Nadam RMSprop SGD
""".split()


class OneHotEmbedding(keras.layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(3, 1), initializer="zeros")

    def call(self, ids):
        return keras.ops.matmul(keras.ops.one_hot(ids, 3, dtype="float32"), self.table)


def change(layer, times):
    """Return the change of a row in one update. Its token occurs `times` times in the batch."""
    model = keras.Sequential([layer, keras.layers.Flatten()])
    loss = lambda _, outputs: -keras.ops.sum(outputs, axis=-1)
    model.compile(keras.optimizers.Adam(0.1), loss=loss)
    model.fit(np.full([1, times], 2), np.zeros([1, times]), verbose=0)
    return round(float(model.get_weights()[0][2, 0]), 3)


def weights(optimizer_name, gradient):
    variable = keras.Variable(np.full([3, 1], 0.5, np.float32))
    optimizer = getattr(keras.optimizers, optimizer_name)(0.1)
    optimizer.build([variable])
    for _ in range(3):
        optimizer.apply([gradient], [variable])
    return variable.numpy()


with_rows = [
    change(keras.layers.Embedding(3, 1, embeddings_initializer="zeros"), times) for times in (1, 4, 16)
]
dense = [change(OneHotEmbedding(), times) for times in (1, 4, 16)]
print("change of a row by Adam, its token occurs 1, 4, 16 times:", with_rows)
print("the same layer with one-hot vectors:", dense)

rows = tf.IndexedSlices(tf.constant([[1.0], [2.0], [-0.5]]), tf.constant([1, 1, 2]), tf.constant([3, 1]))
same, different = [], []
for name in OPTIMIZERS:
    pair = weights(name, rows), weights(name, tf.convert_to_tensor(rows))
    (same if np.allclose(*pair, atol=1e-5) else different).append(name)
print("with and without tf.IndexedSlices the same:", ", ".join(same))
print("different:", ", ".join(different))
assert with_rows == [0.1, 0.2, 0.4] and dense == [0.1, 0.1, 0.1]
assert different == "Adadelta Adafactor Adagrad Adam AdamW Ftrl Lamb Nadam RMSprop".split()
END
