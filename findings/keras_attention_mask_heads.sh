#!/usr/bin/env bash
# An `attention_mask` with an axis for heads makes head n use the padding of text n.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `MultiHeadAttention` combines `attention_mask` with the padding mask of the inputs. An
#            `attention_mask` with an axis for heads has one axis more than the padding mask
#            [B, T, T], which is therefore used as [1, B, T, T]. If the batch has as many texts as
#            the layer has heads, head n hides the padding of text n in all texts. Other sizes give
#            an error, except a batch of one text.
# Surprise:  The documentation allows masks that broadcast over heads. A mask that hides nothing
#            must not change the output. Without padding in the inputs, such masks work correctly.
# Output seen (2 texts of 4 tokens, the second has 3 padding tokens; the mask hides nothing):
#   2 heads, mask [2, 4, 4]:    change / largest output 0.00
#   2 heads, mask [2, 1, 4, 4]: change / largest output 1.31
#   3 heads, mask [2, 1, 4, 4]: InvalidArgumentError
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

keras.utils.set_random_seed(1)
ids = np.array([[1, 2, 3, 4], [5, 0, 0, 0]])  # 0 is padding
embedding = keras.layers.Embedding(6, 8, embeddings_initializer="normal", mask_zero=True)
seen = []
for heads, shape in ((2, (2, 4, 4)), (2, (2, 1, 4, 4)), (3, (2, 1, 4, 4))):
    layer = keras.layers.MultiHeadAttention(heads, 4)
    expected = layer(embedding(ids), embedding(ids))
    name = f"{heads} heads, mask {list(shape)}:"
    try:
        mask = np.ones(shape, bool)  # hides nothing
        outputs = layer(embedding(ids), embedding(ids), attention_mask=mask)
    except tf.errors.InvalidArgumentError as error:
        seen.append(type(error).__name__)
        print(f"{name:27s} {seen[-1]}")
        continue
    change = np.abs(outputs - expected)[ids != 0].max() / np.abs(expected).max()
    seen.append(float(change))
    print(f"{name:27s} change / largest output {change:.2f}")
assert seen[0] == 0 and seen[1] > 0.1 and seen[2] == "InvalidArgumentError"
END
  cat "$folder/log" >&2
  exit 1
}
