#!/usr/bin/env bash
# Keras reports a wrong loss and wrong metrics under `CentralStorageStrategy`.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: under `CentralStorageStrategy` with two devices, `fit` makes the same updates as on one
#            device, but reports another loss and other metrics. `evaluate` also does so. Under
#            `MirroredStrategy`, all numbers are those of one device.
# Surprise:  the batches, the sizes of the devices' shares and the weights are equal, and there is no
#            error or warning. Early stopping and the choice of the best model then use wrong numbers.
# Output seen:
#   one device: loss 0.2191, mean absolute error 0.3815, weight 0.2822
#   MirroredStrategy: loss 0.2191, mean absolute error 0.3815, weight 0.2822
#   CentralStorageStrategy: loss 0.2045, mean absolute error 0.3708, weight 0.2822
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np
import tensorflow as tf

[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
X = np.arange(8, dtype=np.float32)[:, None]
Y = np.float32(X > 3)
DEVICES = ["CPU:0", "CPU:1"]


def run(name, strategy):
    """Train for two epochs and evaluate. Return the loss, the metric and the weight."""
    with strategy.scope():
        dense = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((1,)), dense])
        model.compile(keras.optimizers.SGD(0.01), "mse", metrics=["mae"])
    model.fit(X, Y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    loss, error = model.evaluate(X, Y, batch_size=4, verbose=0)
    weight = model.get_weights()[0].item()
    print(f"{name}: loss {loss:.4f}, mean absolute error {error:.4f}, weight {weight:.4f}")
    return loss, error, weight


central = tf.distribute.experimental.CentralStorageStrategy(DEVICES, "CPU:0")
one = run("one device", tf.distribute.OneDeviceStrategy("CPU:0"))
mirrored = run("MirroredStrategy", tf.distribute.MirroredStrategy(DEVICES))
wrong = run("CentralStorageStrategy", central)
np.testing.assert_allclose(mirrored, one, rtol=1e-4)
np.testing.assert_allclose(wrong[2], one[2], rtol=1e-4)
assert abs(wrong[0] - one[0]) > 0.01 and abs(wrong[1] - one[1]) > 0.01
END
