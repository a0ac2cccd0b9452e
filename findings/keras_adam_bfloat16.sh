#!/usr/bin/env bash
# Adam does not change weights whose dtype is bfloat16.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: with the dtype policy "bfloat16", the weights are bfloat16, and Adam computes its bias
#            correction in this dtype. There, the default beta_2=0.999 is 1. The correction
#            1 - beta_2^t is 0, and it is a factor of the update. AdamW and Lamb do the same. Nadam
#            divides by the correction, so its weights become NaN.
# Surprise:  `fit` runs without an error, but the loss stays the same. The other optimizers below
#            train the same weights. With "mixed_bfloat16", the weights are float32 and Adam works.
# Output seen, a weight that starts at 1, after 8 updates towards -1 with learning rate 0.1:
#   Adam, bfloat16: 1.000
#   AdamW, bfloat16: 1.000
#   Lamb, bfloat16: 1.000
#   Nadam, bfloat16: nan
#   SGD, bfloat16: -0.664
#   RMSprop, bfloat16: -0.246
#   Adam, mixed_bfloat16: 0.212
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import math

import keras
import numpy as np


def trained_weight(name, policy):
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", dtype=policy)
    model = keras.Sequential([keras.Input([1]), dense])
    model.compile(getattr(keras.optimizers, name)(learning_rate=0.1), "mse")
    model.fit(np.ones([4, 1]), -np.ones([4, 1]), epochs=8, verbose=0)
    return float(model.get_weights()[0][0, 0])


seen = {name: trained_weight(name, "bfloat16") for name in ("Adam", "AdamW", "Lamb", "Nadam")}
seen |= {name: trained_weight(name, "bfloat16") for name in ("SGD", "RMSprop")}
for name, weight in seen.items():
    print(f"{name}, bfloat16: {weight:.3f}")
mixed = trained_weight("Adam", "mixed_bfloat16")
print(f"Adam, mixed_bfloat16: {mixed:.3f}")
assert seen["Adam"] == seen["AdamW"] == seen["Lamb"] == 1
assert math.isnan(seen["Nadam"])
assert max(seen["SGD"], seen["RMSprop"], mixed) < 0.3
END
