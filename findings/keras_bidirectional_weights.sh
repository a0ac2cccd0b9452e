#!/usr/bin/env bash
# `Bidirectional(layer, weights=…)` ignores the weights.
#
# Version:   keras 3.15.1
# Behaviour: The constructor stores the weights in an attribute of each direction, and nothing reads
#            this attribute. The layer starts with random weights.
# Surprise:  `weights` is a named argument of the constructor. There is no error and no warning, not
#            even if the number or the shapes of the weights are wrong.
# Output seen:
#   3 weights of 1, 3 weights of -1: 0 of 6 weights have these values
#   3 weights of wrong shapes: no error
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

shapes = [(2, 12), (3, 12), (12,)]  # kernel, recurrent kernel, bias of LSTM(3)
weights = [np.full(shape, value) for value in (1.0, -1.0) for shape in shapes]
layer = keras.layers.Bidirectional(keras.layers.LSTM(3), weights=weights)
layer(np.zeros((1, 5, 2)))
assert [v.shape for v in layer.get_weights()] == shapes * 2
equal = sum(np.array_equal(a, b) for a, b in zip(layer.get_weights(), weights, strict=True))
print(f"3 weights of 1, 3 weights of -1: {equal} of {len(weights)} weights have these values")
keras.layers.Bidirectional(keras.layers.LSTM(3), weights=[np.zeros(7)] * 3)(np.zeros((1, 5, 2)))
print("3 weights of wrong shapes: no error")
assert equal == 0
END
  cat "$folder/log" >&2
  exit 1
}
