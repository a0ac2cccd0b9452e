#!/usr/bin/env bash
# In bfloat16, `Dropout` has another rate than its argument.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: dropout compares its rate with random numbers of the dtype of its input. In bfloat16,
#            these numbers are multiples of 1/128. The share of zeros is therefore the rate rounded
#            up to a multiple of 1/128, but the factor for the other elements is computed from the
#            rate itself. The policy "mixed_bfloat16" also gives dropout inputs in bfloat16.
# Surprise:  with a rate of 0.001, dropout removes eight times as many elements as it should. The
#            mean of the output differs from the mean of the input, although dropout is meant to
#            preserve it.
# Output seen, share of zeros and mean of an input of ones:
#   rate 0.001: 0.0078, mean 0.9922
#   rate 0.01: 0.0156, mean 0.9921
#   rate 0.1: 0.1013, mean 0.9970
#   rate 0.3: 0.3047, mean 0.9941
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np

ones = np.ones([1000, 1000])
for rate in (0.001, 0.01, 0.1, 0.3):
    layer = keras.layers.Dropout(rate, seed=1, dtype="mixed_bfloat16")
    output = np.asarray(layer(ones, training=True)).astype("float64")
    zeros, mean = np.mean(output == 0), np.mean(output)
    print(f"rate {rate}: {zeros:.4f}, mean {mean:.4f}")
    assert abs(zeros - np.ceil(rate * 128) / 128) < 0.001
    assert mean < 0.998
END
