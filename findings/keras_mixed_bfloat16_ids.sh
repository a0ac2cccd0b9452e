#!/usr/bin/env bash
# Under `mixed_bfloat16`, `Reshape` and `Concatenate` change the token ids before an `Embedding`.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `keras.Input((3,))` has the dtype float32, and `fit` casts int ids to it. An
#            `Embedding` reads such ids correctly. Under the policy `mixed_bfloat16`, most other
#            layers cast their inputs to bfloat16. Therefore `Reshape`, `Concatenate` and
#            `TimeDistributed` round ids above 256. For example, 301 becomes 300, and the result is
#            the embedding of another token.
# Surprise:  The arrays have ints, and these layers should only move numbers. The policy is for
#            computations. There is no warning. `keras.Input(…, dtype="int32")` avoids the rounding.
# Output seen (whether each model returns the embedding of token 301 for the id 301):
#   Embedding:                                       embedding of token 301: True
#   Reshape, Embedding:                              embedding of token 301: False
#   Concatenate, Embedding:                          embedding of token 301: False
#   TimeDistributed(Embedding):                      embedding of token 301: False
#   with dtype="int32", Embedding:                   embedding of token 301: True
#   with dtype="int32", Reshape, Embedding:          embedding of token 301: True
#   with dtype="int32", Concatenate, Embedding:      embedding of token 301: True
#   with dtype="int32", TimeDistributed(Embedding):  embedding of token 301: True
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

keras.config.set_dtype_policy("mixed_bfloat16")
layers = keras.layers
embedding = layers.Embedding(1000, 1, embeddings_initializer="zeros")
embedding.build()
# The embedding of each token is a number that bfloat16 stores exactly for 300 and for 301.
embedding.embeddings.assign(np.where(np.arange(1000) == 301, 1.0, 0.0)[:, None])
ids = np.array([[301, 301, 301]])
seen = {}
for name, dtype in (("", None), ('with dtype="int32", ', "int32")):
    inputs = keras.Input((3,), dtype=dtype)
    seen[name + "Embedding"] = keras.Model(inputs, embedding(inputs))
    seen[name + "Reshape, Embedding"] = keras.Model(inputs, embedding(layers.Reshape((3,))(inputs)))
    joined = layers.Concatenate()([inputs, inputs])
    seen[name + "Concatenate, Embedding"] = keras.Model(inputs, embedding(joined))
    rows = layers.Reshape((3, 1), dtype="float32")(inputs)
    outputs = layers.TimeDistributed(embedding)(rows)
    seen[name + "TimeDistributed(Embedding)"] = keras.Model(inputs, outputs)
for name, model in seen.items():
    is_right = np.all(model.predict(ids, verbose=0).astype("float32") == 1)
    print(f"{name + ':':48s} embedding of token 301: {is_right}")
    assert is_right == (name == "Embedding" or "int32" in name)
END
  cat "$folder/log" >&2
  exit 1
}
