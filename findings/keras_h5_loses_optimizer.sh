#!/usr/bin/env bash
# Saving a Keras model as .h5 removes the optimizer from .keras files that are saved later.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: model.save("model.h5") removes the optimizer from the record of compile's arguments.
#            A later model.save("model.keras") writes this record. load_model then compiles the
#            model with the default optimizer, RMSprop. The weights of the saved optimizer do not
#            fit and are skipped. Keras prints a warning about skipped variables, and no error.
# Surprise:  saving a copy in an older format changes the model. If a program loads such a file and
#            continues the training, another optimizer begins at step 0.
# Output seen:
#   saved before model.h5: Adam after 2 steps, learning rate 0.002
#   saved after model.h5: RMSprop after 0 steps, learning rate 0.001
#   the model itself: Adam after 2 steps, learning rate 0.002
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0 keras==3.15.1
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np

model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
model.compile(keras.optimizers.Adam(0.002), "mse")
model.fit(np.ones((4, 3)), np.ones((4, 2)), batch_size=2, verbose=0)
model.save("before.keras")
model.save("model.h5")
model.save("after.keras")


def describe(model):
    optimizer = model.optimizer
    steps, rate = int(optimizer.iterations), float(optimizer.learning_rate)
    return f"{type(optimizer).__name__} after {steps} steps, learning rate {rate:.3f}"


found = {
    "saved before model.h5": describe(keras.models.load_model("before.keras")),
    "saved after model.h5": describe(keras.models.load_model("after.keras")),
    "the model itself": describe(model),
}
for name, text in found.items():
    print(f"{name}: {text}")
adam = "Adam after 2 steps, learning rate 0.002"
assert list(found.values()) == [adam, "RMSprop after 0 steps, learning rate 0.001", adam]
END
