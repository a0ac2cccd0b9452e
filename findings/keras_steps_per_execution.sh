#!/usr/bin/env bash
# With steps_per_execution, Keras uses more batches than `steps_per_epoch` and `steps` request.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `steps_per_execution=n` runs n batches in each call of the compiled function. If
#            `steps_per_epoch` of `fit` or `steps` of `predict` is not a multiple of n, the last call
#            still runs n batches, as long as the dataset has more batches.
# Surprise:  two epochs of 3 batches are 6 updates, but `fit` makes 8. `predict` returns rows for 4
#            batches instead of 3. The documentation of `steps_per_epoch` and `steps` says "total number
#            of steps (batches of samples)". The documentation of `steps_per_execution` says that a
#            number larger than the epoch is truncated to the epoch, but n = 5 makes 10 updates.
# Output seen:
#   steps_per_execution=1: 6 updates, 6 predicted rows
#   steps_per_execution=2: 8 updates, 8 predicted rows
#   steps_per_execution=5: 10 updates, 10 predicted rows
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np
import tensorflow as tf

BATCH = np.ones([2, 1], np.float32)
DATASET = tf.data.Dataset.from_tensors((BATCH, BATCH)).repeat()  # endless


def run(steps_per_execution):
    """Return the number of updates in two epochs of 3 batches, and the rows predicted in 3 batches."""
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), layer])
    # Each update adds 1 to the weight.
    model.compile(
        keras.optimizers.SGD(1.0),
        loss=lambda _, outputs: -outputs,
        steps_per_execution=steps_per_execution,
    )
    model.fit(DATASET, steps_per_epoch=3, epochs=2, verbose=0)
    updates = model.get_weights()[0].item()
    rows = len(model.predict(DATASET.map(lambda x, y: x), steps=3, verbose=0))
    return int(updates), rows


seen = [run(1), run(2), run(5)]
for steps_per_execution, (updates, rows) in zip((1, 2, 5), seen):
    print(f"steps_per_execution={steps_per_execution}: {updates} updates, {rows} predicted rows")
assert seen == [(6, 6), (8, 8), (10, 10)]
END
