#!/usr/bin/env bash
# With `go_backwards=True`, a recurrent layer reverses its outputs, but not the mask.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: With `return_sequences=True`, such a layer returns its outputs in reversed order, so
#            the outputs of padding come first. The mask keeps the order of the inputs.
# Surprise:  The next layer ignores the outputs of the first tokens, and reads the outputs of
#            padding. Therefore the result for a text depends on the amount of padding. No warning.
# Output seen (three tokens, weights of 1; two layers, the first goes backwards):
#   without padding: 0.64
#   with two paddings: 0.12
#   mask of the outputs: [True, True, True, False, False], outputs of padding: the first 2
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

embedding = keras.layers.Embedding(4, 1, mask_zero=True, embeddings_initializer="ones")
ones = {"kernel_initializer": "ones", "recurrent_initializer": "ones"}
first = keras.layers.LSTM(1, return_sequences=True, go_backwards=True, **ones)
second = keras.layers.LSTM(1, **ones)

alone = float(second(first(embedding(np.array([[1, 2, 3]]))))[0, 0])
outputs = first(embedding(np.array([[1, 2, 3, 0, 0]])))
padded = float(second(outputs)[0, 0])
mask = np.array(outputs._keras_mask)[0].tolist()
print(f"without padding: {alone:.2f}")
print(f"with two paddings: {padded:.2f}")
is_padding = np.array(outputs)[0, :, 0] == 0
print(f"mask of the outputs: {mask}, outputs of padding: the first {is_padding.sum()}")
assert is_padding.tolist() == [True, True, False, False, False]
assert mask == [True, True, True, False, False] and abs(padded - alone) > 0.1
END
  cat "$folder/log" >&2
  exit 1
}
