#!/usr/bin/env bash
# For one class per token, `class_weight` weights a text by the position of its largest class.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: If the targets have the shape [texts, tokens], `fit` reads each text as a one-hot
#            vector. It uses the argmax, which is the position of the largest id, as the class of
#            the text. For example, a text whose largest id is at position 2 gets the weight of
#            class 2. If `class_weight` does not contain this class, the weight is 1.
# Surprise:  There is no error and no warning. `sparse_categorical_crossentropy` reads the same
#            targets as ids.
# Output seen (weights: class 0 has 1, class 1 has 10, class 2 has 100):
#   targets [0 0 1]: `fit` uses the weight 100
#   targets [0 2 0]: `fit` uses the weight 10
#   targets [2 0 0]: `fit` uses the weight 1
#   targets [1 1 1]: `fit` uses the weight 1
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

model = keras.Sequential(
    [keras.Input((3, 1)), keras.layers.Dense(3, kernel_initializer="zeros", activation="softmax")]
)
model.compile(keras.optimizers.SGD(0.0), loss="sparse_categorical_crossentropy")
used = []
for targets in ([0, 0, 1], [0, 2, 0], [2, 0, 0], [1, 1, 1]):
    x, y = np.zeros((1, 3, 1)), np.array([targets])
    plain = model.fit(x, y, verbose=0).history["loss"][0]  # log(3) for every token
    weighted = model.fit(x, y, class_weight={0: 1.0, 1: 10.0, 2: 100.0}, verbose=0)
    used.append(round(weighted.history["loss"][0] / plain))
    print(f"targets {y[0]}: `fit` uses the weight {used[-1]}")
assert used == [100, 10, 1, 1]  # weights of the classes: 1 to 10, 1 to 100, 1 to 100, 10
END
  cat "$folder/log" >&2
  exit 1
}
