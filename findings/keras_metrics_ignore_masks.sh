#!/usr/bin/env bash
# `Recall`, `Precision` and `AUC` count padding that the loss and the accuracy ignore.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: If the outputs of a model have a mask, `loss` and metrics such as `BinaryAccuracy`
#            ignore the masked tokens. `Recall`, `Precision` and `AUC` do not read the mask.
# Surprise:  All of these metrics are passed to `compile` in the same list. Keras 2 passed the mask
#            to all metrics. With `sample_weight`, which has zeros for padding, and
#            `weighted_metrics`, the numbers are right.
# Output seen (two real tokens, which are predicted correctly, and two padding tokens with target
#     1):
#   accuracy 1.00, auc 0.67, loss 0.00, precision 1.00, recall 0.33
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

metrics = [
    keras.metrics.BinaryAccuracy(name="accuracy"),
    keras.metrics.Precision(name="precision"),
    keras.metrics.Recall(name="recall"),
    keras.metrics.AUC(name="auc"),
]
inputs = keras.Input((4, 1))
x = keras.layers.Masking(-1.0)(inputs)
outputs = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)(x)
model = keras.Model(inputs, outputs)
model.compile(loss="mse", metrics=metrics)
# two real tokens, both predicted correctly, and two padding tokens, whose targets are 1
values = np.array([[[1.0], [0.0], [-1.0], [-1.0]]])
targets = np.array([[[1.0], [0.0], [1.0], [1.0]]])
result = model.evaluate(values, targets, verbose=0, return_dict=True)
print(", ".join(f"{name} {value:.2f}" for name, value in sorted(result.items())))
assert result["loss"] == 0 and result["accuracy"] == 1 and round(result["recall"], 2) == 0.33
END
  cat "$folder/log" >&2
  exit 1
}
