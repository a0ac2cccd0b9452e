#!/usr/bin/env bash
# Adding position signals to an embedding drops its mask, without a warning.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `Embedding(mask_zero=True)` gives a mask to the layers that follow it. The result of
#            `x + y`, `x * 2.0`, `keras.ops.add(x, y)` or `layers.Add()([x, y])` has no mask, if one
#            operand has none. `MultiHeadAttention` and `LSTM` then read the padding.
# Surprise:  Adding positions without a mask is the normal way to build a Transformer. A layer that
#            does not support masks warns that it drops the mask, for example `Lambda`. The
#            operators and `Add` drop it without a warning.
# Output seen (change of the outputs if only the vector of the padding id is changed):
#   no addition:           attention 0.00, LSTM 0.00, warnings 0
#   x + positions:         attention 0.65, LSTM 0.32, warnings 0
#   Add()([x, positions]): attention 0.65, LSTM 0.32, warnings 0
#   x * 2.0:               attention 1.19, LSTM 0.37, warnings 0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import warnings

import keras
import numpy as np

keras.utils.set_random_seed(1)
embedding = keras.layers.Embedding(10, 4, mask_zero=True)
signal = keras.layers.Embedding(4, 4)
attention, lstm = keras.layers.MultiHeadAttention(1, 4), keras.layers.LSTM(3)
ways = {
    "no addition": lambda x, positions: x,
    "x + positions": lambda x, positions: x + positions,
    "Add()([x, positions])": lambda x, positions: keras.layers.Add()([x, positions]),
    "x * 2.0": lambda x, positions: x * 2.0,
}
ids = np.array([[1, 2, 0, 0]])  # 0 is padding
for name, way in ways.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokens, places = keras.Input((4,), dtype="int32"), keras.Input((4,), dtype="int32")
        x = way(embedding(tokens), signal(places))
        model = keras.Model([tokens, places], [attention(x, x), lstm(x)])
        inputs = [ids, np.arange(4)[None]]
        before = [np.asarray(y) for y in model(inputs)]
        table = embedding.embeddings.numpy()
        embedding.embeddings.assign(np.concatenate([table[:1] + 1, table[1:]]))
        after = [np.asarray(y) for y in model(inputs)]
        embedding.embeddings.assign(table)
    in_attention = np.abs(before[0] - after[0])[0, 0].max()  # the output at the first real token
    in_lstm = np.abs(before[1] - after[1]).max()
    warned = [w for w in caught if "mask" in str(w.message)]
    print(
        f"{name + ':':22s} attention {in_attention:.2f}, LSTM {in_lstm:.2f}, "
        f"warnings {len(warned)}"
    )
    reads_padding = name != "no addition"
    assert (in_attention > 0.05) == (in_lstm > 0.05) == reads_padding and not warned
END
