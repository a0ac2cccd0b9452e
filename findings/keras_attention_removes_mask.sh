#!/usr/bin/env bash
# `MultiHeadAttention` removes the mask from its inputs, so later layers read the padding.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: A call of `MultiHeadAttention` sets the Keras mask of the query, value and key tensors
#            to None and does not restore it. In a model with its own `call`, the next layer that
#            reads the same tensor has no mask. A second attention to the same tensor reads the
#            padding, too. Models of `keras.Input` are right, because each layer gets its masks from
#            the graph.
# Surprise:  A layer is not expected to change its inputs. The same layers give other results in a
#            subclass of `keras.Model` than in a functional model. There is no warning.
# Output seen (change of the outputs if only the vector of the padding id is changed):
#   subclass, LSTM only:               0.00
#   subclass, attention, then LSTM:    0.30
#   subclass, attention:               0.00
#   subclass, attention twice:         1.13
#   keras.Input, attention, then LSTM: 0.00
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

keras.utils.set_random_seed(1)
embedding = keras.layers.Embedding(10, 4, mask_zero=True, embeddings_initializer="normal")
attention = keras.layers.MultiHeadAttention(1, 4)
lstm = keras.layers.LSTM(3)
ids = np.array([[1, 2, 0, 0]])  # 0 is padding


class Model(keras.Model):
    def __init__(self, calls):
        super().__init__()
        self.embedding, self.attention, self.lstm, self.calls = embedding, attention, lstm, calls

    def call(self, ids):
        x = self.embedding(ids)
        for name in self.calls[:-1]:
            self.attention(x, x)
        return self.lstm(x) if self.calls[-1] == "lstm" else self.attention(x, x)[:, :2]


inputs = keras.Input((4,), dtype="int32")
x = embedding(inputs)
functional = keras.Model(inputs, [attention(x, x)[:, :2], lstm(x)])
models = {
    "subclass, LSTM only": Model(["lstm"]),
    "subclass, attention, then LSTM": Model(["attention", "lstm"]),
    "subclass, attention": Model(["attention"]),
    "subclass, attention twice": Model(["attention", "attention"]),
    "keras.Input, attention, then LSTM": lambda ids: functional(ids)[1],
}
seen = []
for name, model in models.items():
    before = np.asarray(model(ids))
    table = embedding.embeddings.numpy()
    embedding.embeddings.assign(np.concatenate([table[:1] + 1, table[1:]]))
    after = np.asarray(model(ids))
    embedding.embeddings.assign(table)
    seen.append(float(np.abs(after - before).max()))
    print(f"{name + ':':34s} {seen[-1]:.2f}")
assert [change > 0.05 for change in seen] == [False, True, False, True, False]
END
  cat "$folder/log" >&2
  exit 1
}
