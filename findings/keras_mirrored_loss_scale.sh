#!/usr/bin/env bash
# With loss scaling on two devices, an overflow on the second device destroys the weights.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `LossScaleOptimizer` skips an update whose gradients are not finite, and halves the scale
#            of the loss. Under `MirroredStrategy`, it looks only at the gradients of the first
#            replica, before the gradients of the replicas are added. If another replica overflows,
#            the update is applied.
# Surprise:  An overflow is normal with the policy `mixed_float16`: the optimizer finds a scale by
#            doubling it until a gradient overflows. On one device the batch is skipped. On two
#            devices, the same batch makes the weights infinite if the example with the overflow is
#            in the second half of the batch.
# Output seen (8 examples, one of which makes the gradient infinite):
#   one device, example 0:   weights finite, scale 16384
#   one device, example 7:   weights finite, scale 16384
#   two replicas, example 0: weights finite, scale 16384
#   two replicas, example 7: weights infinite, scale 32768
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
STRATEGIES = {
    "one device": tf.distribute.get_strategy(),
    "two replicas": tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
}


def trained(strategy, example):
    """Return the kernel and the scale after one update."""
    x, y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
    x[example] = 1e30
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
        model.compile(optimizer, "mse")
    model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    return model.get_weights()[0], int(optimizer.dynamic_scale.numpy())


for name, strategy in STRATEGIES.items():
    for example in (0, 7):
        kernel, scale = trained(strategy, example)
        is_finite = bool(np.isfinite(kernel).all())
        label = f"{name}, example {example}:"
        print(f"{label:24s} weights {'finite' if is_finite else 'infinite'}, scale {scale}")
        assert is_finite == (scale == 16384) == ((name, example) != ("two replicas", 7))
END
