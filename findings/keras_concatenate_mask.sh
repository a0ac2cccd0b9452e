#!/usr/bin/env bash
# `Concatenate` of a sequence with a mask and one without a mask makes all padding valid.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: If one input has no mask, `keras.layers.Concatenate` treats all its positions as valid.
#            Along the last axis, the mask of the output is True where the mask of one input is
#            True, so it is True everywhere.
# Surprise:  A model that appends features without a mask to embeddings, such as positions, loses the
#            mask. Later layers then read the padding. If the other input is an embedding with
#            `mask_zero=True` of the same ids, the mask is right. No warning.
# Output seen (ids [[1, 2, 0, 0]]):
#   mask of the embedding:                       [ True  True False False]
#   mask after Concatenate with another mask:    [ True  True False False]
#   mask after Concatenate with plain features:  [ True  True  True  True]
#   state of an LSTM changes with more padding:  True
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

keras.utils.set_random_seed(0)
ids, features = keras.Input((None,), dtype="int32"), keras.Input((None, 3))
embedded = keras.layers.Embedding(5, 2, mask_zero=True)(ids)
other = keras.layers.Embedding(5, 3, mask_zero=True)(ids)
models = [
    keras.Model([ids, features], output)
    for output in (
        embedded,
        keras.layers.Concatenate()([embedded, other]),
        keras.layers.Concatenate()([embedded, features]),
    )
]
texts = np.array([[1, 2, 0, 0]]), np.ones([1, 4, 3], "float32")
masks = [model(texts)._keras_mask.numpy()[0] for model in models]
print("mask of the embedding:                      ", masks[0])
print("mask after Concatenate with another mask:   ", masks[1])
print("mask after Concatenate with plain features: ", masks[2])
assert [mask.tolist() for mask in masks] == [[True, True, False, False]] * 2 + [[True] * 4]
lstm = keras.Model(models[2].inputs, keras.layers.LSTM(4)(models[2].output))
short = lstm([texts[0][:, :2], texts[1][:, :2]])
changes = not np.allclose(short, lstm(texts), atol=1e-4)
print("state of an LSTM changes with more padding: ", changes)
assert changes
END
  cat "$folder/log" >&2
  exit 1
}
