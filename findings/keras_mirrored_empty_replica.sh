#!/usr/bin/env bash
# Under `MirroredStrategy`, one small last batch makes a model with `BatchNormalization` NaN.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: If the last batch of an epoch has fewer examples than there are replicas, a replica gets
#            a batch of 0 examples. On this replica, `BatchNormalization` computes the mean of no
#            values, which is NaN, and adds it to its moving averages. In this epoch, `fit` raises no
#            error and prints no warning. From then on, the evaluation loss is NaN, and so is the
#            training loss of the next epoch.
# Surprise:  With the same data, training works on one device, and on two devices if the last batch
#            has two examples. The user does not choose the last batch, because `fit` divides the
#            data into batches. With `synchronized=True`, all numbers stay finite.
# Output seen (9 examples in batches of 8, two replicas):
#   one device:               loss 1.84, NaN in 0 of 6 weights
#   two replicas:             loss 2.00, NaN in 1 of 6 weights
#   two replicas, 2nd epoch:  loss nan, NaN in 4 of 6 weights
#   two, synchronized=True:   loss 1.62, NaN in 0 of 6 weights
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
x = np.random.default_rng(0).normal(size=(9, 4)).astype("float32")
y = np.ones((9, 1), "float32")
TWO = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def trained(strategy, synchronized=False, epochs=1):
    """Return the last loss, and the number of weights with NaN."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.BatchNormalization(synchronized=synchronized),
                keras.layers.Dense(1),
            ]
        )
        model.compile("sgd", "mse")
    history = model.fit(x, y, batch_size=8, epochs=epochs, shuffle=False, verbose=0)
    return history.history["loss"][-1], sum(np.isnan(w).any() for w in model.get_weights())


cases = {
    "one device": (tf.distribute.get_strategy(),),
    "two replicas": (TWO,),
    "two replicas, 2nd epoch": (TWO, False, 2),
    "two, synchronized=True": (TWO, True, 2),
}
seen = {}
for name, arguments in cases.items():
    loss, seen[name] = trained(*arguments)
    print(f"{name + ':':25s} loss {loss:.2f}, NaN in {seen[name]} of 6 weights")
    assert np.isnan(loss) == (name == "two replicas, 2nd epoch")
assert list(seen.values()) == [0, 1, 4, 0]
END
