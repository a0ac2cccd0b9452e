#!/usr/bin/env bash
# With masked time steps, `fit` on two replicas makes another update than on one device.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: under `MirroredStrategy`, each replica divides the loss by the number of its own time
#            steps that are not masked. The gradient is the mean over the replicas. A time step in a
#            replica with much padding therefore has more weight than others.
# Surprise:  the batch, the model and the optimizer are the same, and there is no warning. Here, the
#            update even has the opposite sign.
# Output seen, a batch of two sequences with 4 and 1 time steps, a weight that starts at 1:
#   one device: loss 1.6, weight 0.92
#   two replicas: loss 2.5, weight 1.10
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import contextlib

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
inputs = np.array([[1, 1, 1, 1], [1, 0, 0, 0]], "float32")[..., np.newaxis]  # 0 is masked
targets = np.array([[0, 0, 0, 0], [3, 3, 3, 3]], "float32")[..., np.newaxis]


def trained(scope):
    with scope:
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = keras.Sequential([keras.Input([4, 1]), keras.layers.Masking(), dense])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    loss = model.fit(inputs, targets, batch_size=2, shuffle=False, verbose=0).history["loss"][0]
    return loss, float(dense.kernel.numpy()[0, 0])


one = trained(contextlib.nullcontext())
two = trained(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope())
print(f"one device: loss {one[0]:.1f}, weight {one[1]:.2f}")
print(f"two replicas: loss {two[0]:.1f}, weight {two[1]:.2f}")
assert np.allclose(one, (1.6, 0.92)) and np.allclose(two, (2.5, 1.1))
END
