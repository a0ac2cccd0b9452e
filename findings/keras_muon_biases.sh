#!/usr/bin/env bash
# Muon orthogonalizes the updates of biases in `MultiHeadAttention`, but not those of its kernels.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `keras.optimizers.Muon` orthogonalizes the update of each variable that has two axes.
#            Every other variable gets the update of AdamW. In `MultiHeadAttention`, the kernels of
#            queries, keys and values have three axes: input, head and channel. Their biases have two
#            axes: head and channel.
# Surprise:  Muon is an optimizer for matrices, and its documentation says that AdamW should update
#            the biases. Here, each of the four matrices gets the update of AdamW, and three biases
#            get the update of Muon.
# Output seen:
#   query/kernel (8, 2, 4): AdamW
#   query/bias (2, 4): Muon
#   key/kernel (8, 2, 4): AdamW
#   key/bias (2, 4): Muon
#   value/kernel (8, 2, 4): AdamW
#   value/bias (2, 4): Muon
#   attention_output/kernel (2, 4, 8): AdamW
#   attention_output/bias (8,): AdamW
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np

RATE = 0.01
layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=4)
layer.build([1, 3, 8], [1, 3, 8])
weights = layer.trainable_variables
random = np.random.default_rng(0)
gradients = [random.normal(size=weight.shape).astype("float32") for weight in weights]
before = [weight.numpy() for weight in weights]
keras.optimizers.Muon(RATE, weight_decay=0, adam_weight_decay=0).apply(gradients, weights)
seen = {}
for weight, old in zip(weights, before):
    change = np.abs(weight.numpy() - old)
    # The first update of AdamW changes every element by the learning rate.
    is_adamw = np.allclose(change, RATE, rtol=1e-3)
    name = "/".join(weight.path.split("/")[-2:])
    seen[name] = "AdamW" if is_adamw else "Muon"
    print(f"{name} {tuple(weight.shape)}: {seen[name]}")
assert {name for name, update in seen.items() if update == "Muon"} == {
    "query/bias",
    "key/bias",
    "value/bias",
}
END
