#!/usr/bin/env bash
# `MultiHeadAttention` returns another output if you also request the attention scores.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: With `return_attention_scores=True`, the layer uses another implementation. For a
#            position that may attend to no position, it returns the output bias, and all scores are
#            0. Without the argument, such a position attends to all positions with equal weights,
#            also to those that the mask hides.
# Surprise:  The argument should only add an output. With padding on the left and a causal mask, the
#            first positions of a sequence may attend to no position. A later layer that has no
#            mask then gets other values, and so does an average over all positions.
# Output seen (largest difference between the outputs of the two calls, per position):
#   [0.4, 0.0, 0.0]
#   the first position without scores attends to all positions equally: True
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np

keras.utils.set_random_seed(1)
layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=4)
x = np.random.default_rng(0).normal(size=(1, 3, 8)).astype("float32")
padding_on_the_left = np.array([[False, True, True]])
call = {"key_mask": padding_on_the_left, "value_mask": padding_on_the_left}
output = np.asarray(layer(x, x, use_causal_mask=True, **call))
with_scores, scores = layer(x, x, use_causal_mask=True, return_attention_scores=True, **call)
difference = np.abs(output - np.asarray(with_scores)).max(axis=(0, 2))
print([round(float(value), 2) for value in difference])
average = layer(x, np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape))
is_average = np.allclose(output[:, 0], np.asarray(average)[:, 0], atol=1e-6)
print("the first position without scores attends to all positions equally:", is_average)
assert difference[0] > 0.05 and difference[1:].max() < 1e-5 and is_average
assert (np.asarray(scores)[:, :, 0] == 0).all()
END
