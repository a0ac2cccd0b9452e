#!/usr/bin/env bash
# One empty text in a batch makes all weights of a model with `GlobalAveragePooling1D` NaN.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: With a mask, the layer divides the sum of the real time steps by their number. For a
#            text that is only padding, it computes 0 / 0. `fit` averages the losses of the batch, so
#            the loss is NaN, and two updates set every weight to NaN. `sample_weight=0` for the
#            empty text does not help.
# Surprise:  Empty texts are common in real data. `LSTM` and attention with the same mask return
#            finite numbers for them. A single text among thousands destroys the model, and `fit`
#            continues without an error or a warning.
# Output seen:
#   output for the empty text: LSTM 0.0, GlobalAveragePooling1D nan
#   weights that are NaN after two updates: 3 of 3
#   the same if the empty text has the sample weight 0: 3 of 3
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np

texts = np.random.default_rng(0).integers(1, 9, size=(8, 5))
texts[3] = 0  # an empty text: only padding
labels = np.ones((8, 1), "float32")
weights = (np.arange(8) != 3).astype("float32")


def first_output(layer):
    x = keras.layers.Embedding(9, 4, mask_zero=True)(texts)
    return float(np.asarray(layer(x))[3, 0])


def destroyed_weights(sample_weight):
    model = keras.Sequential(
        [
            keras.layers.Embedding(9, 4, mask_zero=True),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    model.fit(texts, labels, sample_weight=sample_weight, batch_size=8, epochs=2, verbose=0)
    return sum(np.isnan(weight).any() for weight in model.get_weights()), len(model.weights)


of_lstm = first_output(keras.layers.LSTM(4))
of_pooling = first_output(keras.layers.GlobalAveragePooling1D())
print(f"output for the empty text: LSTM {of_lstm}, GlobalAveragePooling1D {of_pooling}")
plain, weighted = destroyed_weights(None), destroyed_weights(weights)
print("weights that are NaN after two updates: {} of {}".format(*plain))
print("the same if the empty text has the sample weight 0: {} of {}".format(*weighted))
assert of_lstm == 0 and np.isnan(of_pooling)
assert plain == weighted == (3, 3)
END
