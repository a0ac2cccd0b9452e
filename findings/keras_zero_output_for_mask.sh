#!/usr/bin/env bash
# With `zero_output_for_mask=True`, the output of an LSTM is 0 for each text with padding.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: The documentation says that `zero_output_for_mask` is only used with
#            `return_sequences=True`. But with `return_sequences=False`, a recurrent layer returns
#            zeros for each text that ends with padding, instead of the output of its last token.
#            The returned states are right.
# Surprise:  A classifier gets no information about any text that is shorter than the longest text of
#            the batch. So the output for a text depends on the other texts of the batch. No warning.
# Output seen (sum of the absolute values of the output):
#   text of 3 tokens:                                       0.49
#   with a longer text in the batch:                        0.49
#   with a longer text, zero_output_for_mask=True:          0.00
#   the state h, with a longer text, zero_output_for_mask:  0.49
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

keras.utils.set_random_seed(0)
normal = keras.initializers.RandomNormal(stddev=1.0)
embedding = keras.layers.Embedding(9, 4, embeddings_initializer=normal, mask_zero=True)
plain = keras.layers.LSTM(4, return_state=True)
zeros = keras.layers.LSTM(4, return_state=True, zero_output_for_mask=True)
alone, batch = np.array([[1, 2, 3]]), np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
expected = plain(embedding(alone))[0]
zeros.build((None, None, 4))
zeros.set_weights(plain.get_weights())
outputs = {
    "text of 3 tokens:": expected[0],
    "with a longer text in the batch:": plain(embedding(batch))[0][0],
    "with a longer text, zero_output_for_mask=True:": zeros(embedding(batch))[0][0],
    "the state h, with a longer text, zero_output_for_mask:": zeros(embedding(batch))[1][0],
}
outputs = {name: np.asarray(output) for name, output in outputs.items()}
for name, output in outputs.items():
    print(f"{name:55s} {np.abs(output).sum():.2f}")
text, longer, zero, state = outputs.values()
assert np.abs(text).max() > 0.01 and (zero == 0).all()
assert np.allclose(text, longer, atol=1e-6) and np.allclose(text, state, atol=1e-6)
END
  cat "$folder/log" >&2
  exit 1
}
