#!/usr/bin/env bash
# With `set_floatx("bfloat16")`, `SparseCategoricalCrossentropy` trains on other classes.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: A loss casts the targets to its dtype, which is `floatx`, before it reads them as ids.
#            In bfloat16, ids above 256 are rounded to multiples of 2, ids above 512 to multiples of
#            4, and so on. float16 rounds ids above 2,048.
# Surprise:  The targets are ints, and the loss needs ints. There is no warning. The loss falls in a
#            normal way, because it reads the rounded ids. An error appears only if a rounded id is
#            as large as the number of classes.
# Output seen (all targets are the class 301 of 1,000):
#   float32:  loss 0.08, the model predicts class 301
#   bfloat16: loss 0.08, the model predicts class 300
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras
import numpy as np

x, y = np.zeros((8, 1)), np.full(8, 301, "int32")
predicted = {}
for floatx in ("float32", "bfloat16"):
    keras.config.set_floatx(floatx)
    model = keras.Sequential(
        [keras.Input((1,)), keras.layers.Dense(1000, kernel_initializer="zeros")]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1.0), loss=loss)
    model.fit(x, y, epochs=20, verbose=0)
    value = float(model.evaluate(x, y, verbose=0))
    predicted[floatx] = int(np.argmax(model.predict(x[:1], verbose=0).astype("float32")))
    print(f"{floatx + ':':9s} loss {value:.2f}, the model predicts class {predicted[floatx]}")
assert predicted == {"float32": 301, "bfloat16": 300}
END
  cat "$folder/log" >&2
  exit 1
}
