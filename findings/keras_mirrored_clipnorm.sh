#!/usr/bin/env bash
# Keras' global_clipnorm allows a longer gradient if MirroredStrategy has several replicas.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: each replica clips its own gradient to the norm, and the clipped gradients are added
#            afterwards. The sum over N replicas can be N times as long as global_clipnorm allows.
#            It also has another direction, because a replica with a small gradient has the same
#            weight as a replica with a large gradient.
# Surprise:  with the same model, batch and optimizer, the update on two devices differs from the
#            update on one device, without a warning. The name of the option says that the norm is
#            taken over all gradients.
# Output seen (global_clipnorm=1, learning rate 1, so the update is the clipped gradient):
#   one replica: update [1.0, 0.01], norm 1.000
#   two replicas: update [1.0, 1.0], norm 1.414
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - 2>"$folder/log" <<'END' || {
import keras
import numpy as np
import tensorflow as tf

[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def update(strategy):
    """The weights after one step from zero on a batch of two examples."""
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Input((2,)),
                keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros"),
            ]
        )
        model.compile(optimizer=keras.optimizers.SGD(1.0, global_clipnorm=1.0), loss="mse")
    examples = np.float32([[1, 0], [0, 1]]), np.float32([[100], [1]])
    model.fit(tf.data.Dataset.from_tensor_slices(examples).batch(2), verbose=0)
    return model.get_weights()[0].ravel()


for name, strategy, expected in (
    ("one replica", tf.distribute.get_strategy(), [0.99995, 0.01]),
    ("two replicas", tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), [1, 1]),
):
    seen = update(strategy)
    shown = [round(float(value), 3) for value in seen]
    print(f"{name}: update {shown}, norm {np.linalg.norm(seen):.3f}")
    np.testing.assert_allclose(seen, expected, atol=1e-4)
END
  cat "$folder/log" >&2
  exit 1
}
