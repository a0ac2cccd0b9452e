#!/usr/bin/env bash
# With a seeded initializer, the query, key and value kernels of `MultiHeadAttention` are equal.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `MultiHeadAttention` makes a copy of `kernel_initializer` for each kernel, so that the
#            kernels get different values. With a seed, all copies sample the same numbers. In
#            self-attention, training therefore starts with queries that equal the keys. The score
#            of position i for position j equals the score of j for i. `GroupQueryAttention` behaves
#            in the same way if the numbers of heads are equal.
# Surprise:  A seed should make a run repeatable and not change the model. A comment in the source
#            says that the copies prevent equal values. There is no warning.
# Output seen (correlation of the kernels of query and key):
#   GlorotUniform():       0.01, warnings 0
#   GlorotUniform(seed=1): 1.00, warnings 0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import warnings

import keras
import numpy as np

keras.utils.set_random_seed(1)
seen = {}
for name, initializer in (
    ("GlorotUniform()", keras.initializers.GlorotUniform()),
    ("GlorotUniform(seed=1)", keras.initializers.GlorotUniform(seed=1)),
):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        layer = keras.layers.MultiHeadAttention(4, 16, kernel_initializer=initializer)
        layer.build((None, None, 64), (None, None, 64))
    query, key, value = (layer.get_weights()[index] for index in (0, 2, 4))
    assert query.shape == key.shape == value.shape == (64, 4, 16)
    seen[name] = np.corrcoef(query.ravel(), key.ravel())[0, 1]
    print(f"{name + ':':22s} {seen[name]:.2f}, warnings {len(caught)}")
    assert not caught and np.array_equal(query, value) == ("seed" in name)
assert abs(seen["GlorotUniform()"]) < 0.1 and seen["GlorotUniform(seed=1)"] > 0.999
END
  cat "$folder/log" >&2
  exit 1
}
