#!/usr/bin/env bash
# Under `MirroredStrategy`, all replicas sample the same dropout mask.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: each replica has a copy of the state of a `SeedGenerator`. All copies have the same value,
#            so in every step all replicas sample the same numbers. `GaussianNoise` behaves alike.
# Surprise:  replicas have different examples, and their random numbers are meant to be independent.
#            Instead, the first example of each replica always loses the same elements.
# Output seen, elements that dropout kept:
#   step 1, replica 0: [0 0 0 0 0 0 1 1 1 0 0 0]
#   step 1, replica 1: [0 0 0 0 0 0 1 1 1 0 0 0]
#   step 2, replica 0: [1 0 1 0 0 1 0 0 0 0 0 0]
#   step 2, replica 1: [1 0 1 0 0 1 0 0 0 0 0 0]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    dropout = keras.layers.Dropout(0.5, seed=1)
    dropout(tf.ones([1, 1]), training=True)


def replica_step():
    return dropout(tf.ones([1, 12]), training=True)


@tf.function
def step():
    return strategy.run(replica_step)


for number in (1, 2):
    masks = [np.sign(x.numpy()[0]).astype(int) for x in strategy.experimental_local_results(step())]
    for replica, mask in enumerate(masks):
        print(f"step {number}, replica {replica}: {mask}")
    assert len(masks) == 2 and np.array_equal(*masks)
END
