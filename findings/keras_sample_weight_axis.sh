#!/usr/bin/env bash
# If a batch has as many texts as tokens in each text, `sample_weight` weights positions.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: A model has one output for each token, and `fit` or `evaluate` gets one weight for each
#            text. The loss multiplies values of shape [texts, tokens] by weights of shape [texts].
#            If the two sizes differ, this is an error. If they are equal, token t of every text
#            gets the weight of text t. If the outputs have a mask, weighted metrics do the same.
# Surprise:  Without a mask, weighted metrics give each text its own weight. The loss and the metric
#            of one call then disagree. Only the batch size decides whether there is an error.
# Output seen (4 texts of 4 tokens; only text 0 has errors, of size 1, and only text 0 has weight
#     1):
#   weights of shape [4, 4]:        loss 0.2500, weighted metric 1.00
#   weights of shape [4]:           loss 0.0625, weighted metric 1.00
#   weights of shape [4], masked:   loss 0.0625, weighted metric 0.25
#   3 texts, weights of shape [3]:  InvalidArgumentError
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
import tensorflow as tf


def evaluate(name, texts, weights, masked=False):
    layers = [keras.layers.Masking(-1.0)] if masked else []  # no value is -1: all tokens are real
    layers.append(keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"))
    model = keras.Sequential([keras.Input((4, 1)), *layers])
    model.compile(loss="mse", weighted_metrics=["mse"])
    outputs = np.zeros((texts, 4, 1))
    outputs[0] = 1  # the targets are 0
    try:
        loss, metric = model.evaluate(outputs, 0 * outputs, sample_weight=weights, verbose=0)
    except tf.errors.InvalidArgumentError as error:
        print(f"{name + ':':31s} {type(error).__name__}")
        return None
    print(f"{name + ':':31s} loss {loss:.4f}, weighted metric {metric:.2f}")
    return loss, metric


one = np.array([1.0, 0.0, 0.0, 0.0])
assert evaluate("weights of shape [4, 4]", 4, np.tile(one[:, None], (1, 4))) == (0.25, 1.0)
assert evaluate("weights of shape [4]", 4, one) == (0.0625, 1.0)
assert evaluate("weights of shape [4], masked", 4, one, masked=True) == (0.0625, 0.25)
assert evaluate("3 texts, weights of shape [3]", 3, one[:3]) is None
END
  cat "$folder/log" >&2
  exit 1
}
