#!/usr/bin/env bash
# After `tf.random.set_seed`, `to_tf_dataset(shuffle=True)` has the same order in each epoch.
#
# Version:   datasets 4.4.1, tensorflow 2.21.0
# Behaviour: `to_tf_dataset` shuffles with a random number that the dataset samples. With a global
#            seed of TensorFlow, each new iterator samples the same number. `fit` makes a new
#            iterator for each epoch.
# Surprise:  A comment in the source code says that each epoch gets a new seed. This is true only
#            without a global seed. With one, `tf.data.Dataset.shuffle` still has a new order in
#            each epoch. No warning.
# Output seen (10 rows, three iterations):
#   to_tf_dataset, no seed: 3 different orders
#   to_tf_dataset, set_seed(1): 1 different orders
#   Dataset.shuffle, set_seed(1): 3 different orders
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  datasets==4.4.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import datasets
import tensorflow as tf


def orders(dataset):
    return len({tuple(row.numpy() for batch in dataset for row in batch) for _ in range(3)})


rows = datasets.Dataset.from_dict({"row": list(range(10))})
options = {"columns": "row", "batch_size": 10, "shuffle": True}
no_seed = orders(rows.to_tf_dataset(**options))
tf.random.set_seed(1)
with_seed = orders(rows.to_tf_dataset(**options))
shuffled = orders(tf.data.Dataset.range(10).shuffle(10).batch(10))
print(f"to_tf_dataset, no seed: {no_seed} different orders")
print(f"to_tf_dataset, set_seed(1): {with_seed} different orders")
print(f"Dataset.shuffle, set_seed(1): {shuffled} different orders")
assert (no_seed, with_seed, shuffled) == (3, 1, 3)
END
  cat "$folder/log" >&2
  exit 1
}
