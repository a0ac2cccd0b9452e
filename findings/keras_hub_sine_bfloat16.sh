#!/usr/bin/env bash
# In bfloat16, KerasHub's `SinePositionEncoding` has equal signals for neighboring positions.
#
# Version:   keras-hub 0.32.0, keras 3.15.1, tensorflow 2.21.0
# Behaviour: The layer casts the positions to the compute dtype before it computes sines and
#            cosines. Above 256, bfloat16 contains only every second integer, and above 1,024 only
#            every eighth. Above 2,048, float16 contains only every second integer.
# Surprise:  With the policy `mixed_bfloat16`, a Transformer cannot distinguish neighboring
#            positions of a long text. KerasHub's `RotaryEmbedding` computes in float32. No warning.
# Output seen (4,096 positions, 16 features):
#   float32: 4096 different signals
#   mixed_bfloat16: 769 different signals, positions 256 and 257 are equal
#   mixed_float16: 3073 different signals
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras-hub==0.32.0 keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras_hub
import numpy as np

numbers = {}
for policy in "float32", "mixed_bfloat16", "mixed_float16":
    layer = keras_hub.layers.SinePositionEncoding(dtype=policy)
    signals = np.array(layer(np.zeros([1, 4096, 16]))[0]).astype("float32")
    numbers[policy] = len(np.unique(signals, axis=0))
    equal = (signals[256] == signals[257]).all()
    note = ", positions 256 and 257 are equal" if equal else ""
    print(f"{policy}: {numbers[policy]} different signals{note}")
assert numbers == {"float32": 4096, "mixed_bfloat16": 769, "mixed_float16": 3073}
END
  cat "$folder/log" >&2
  exit 1
}
