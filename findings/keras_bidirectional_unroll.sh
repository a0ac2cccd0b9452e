#!/usr/bin/env bash
# With `unroll=True`, the backward half of `Bidirectional` returns 0 for the first tokens of a text.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: The backward layer reads the tokens and the mask in reversed order. With `unroll=True`,
#            it then sets the outputs of padding to 0, but with the mask in the original order.
# Surprise:  `unroll` should change only the speed. For every text with padding, the next layers
#            read wrong outputs. Without `unroll`, the outputs are right. The forward half is right in
#            both cases. No warning.
# Output seen (three tokens, two paddings, weights of 1; outputs of the backward layer):
#   unroll=False: 0.81 0.67 0.37 0.00 0.00
#   unroll=True: 0.00 0.00 0.37 0.00 0.00
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

ids = np.array([[1, 2, 3, 0, 0]])
vectors = keras.layers.Embedding(4, 1, mask_zero=True, embeddings_initializer="ones")(ids)
outputs = {}
for unroll in (False, True):
    recurrence = keras.layers.LSTM(
        1,
        return_sequences=True,
        unroll=unroll,
        kernel_initializer="ones",
        recurrent_initializer="ones",
    )
    layer = keras.layers.Bidirectional(recurrence, merge_mode=None)
    forward, backward = (np.array(output).ravel() for output in layer(vectors))
    outputs[unroll] = backward
    print(f"unroll={unroll}:", *(f"{output:.2f}" for output in backward))
    assert (forward != 0).tolist() == [True, True, True, False, False]
assert (outputs[False] != 0).tolist() == [True, True, True, False, False]
assert (outputs[True] != 0).tolist() == [False, False, True, False, False]
END
  cat "$folder/log" >&2
  exit 1
}
