#!/usr/bin/env bash
# KerasHub's `Perplexity` omits masked tokens from the loss, but divides by all tokens.
#
# Version:   keras-hub 0.32.0, keras 3.15.1, tensorflow 2.21.0
# Behaviour: If the outputs of a model have a Keras mask, as with `Embedding(mask_zero=True)`, the
#            sum of the cross entropy contains only the tokens that the mask selects. But the metric
#            divides this sum by the number of all tokens, with padding. With `mask_token_id=0`, the
#            perplexity is right.
# Surprise:  `loss` in the same line of `fit` and `evaluate` respects the mask. The perplexity is lower
#            than exp(loss), and more padding makes it lower. No warning.
# Output seen (untrained model with 10 tokens, half of the tokens are padding):
#   exp(loss):                   9.98
#   Perplexity():                3.16
#   Perplexity(mask_token_id=0): 9.98
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras-hub==0.32.0 keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras
import keras_hub
import numpy as np

keras.utils.set_random_seed(0)
ids = np.random.default_rng(0).integers(1, 10, (64, 12))
ids[:, 6:] = 0
model = keras.Sequential(
    [
        keras.Input((12,), dtype="int32"),
        keras.layers.Embedding(10, 8, mask_zero=True),
        keras.layers.LSTM(8, return_sequences=True),
        keras.layers.Dense(10),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
metrics = [
    keras_hub.metrics.Perplexity(from_logits=True, name="plain"),
    keras_hub.metrics.Perplexity(from_logits=True, mask_token_id=0, name="masked"),
]
model.compile("sgd", loss, metrics=metrics)
seen = model.evaluate(ids, ids, verbose=0, return_dict=True)
expected = float(np.exp(seen["loss"]))
print(f"exp(loss):                   {expected:.2f}")
print(f"Perplexity():                {seen['plain']:.2f}")
print(f"Perplexity(mask_token_id=0): {seen['masked']:.2f}")
assert abs(seen["masked"] - expected) < 0.01
assert abs(seen["plain"] - expected**0.5) < 0.01
END
  cat "$folder/log" >&2
  exit 1
}
