#!/usr/bin/env bash
# With several outputs, the reported losses of the outputs give a small last batch too much weight.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `loss` is the mean over all examples. `a_loss` and `b_loss`, the losses of the outputs,
#            are means over the batches. The last batch has the same weight as the others, even if
#            it has only one example. `fit` reports such values, too, such as `val_a_loss`.
# Surprise:  Keras passes the batch size as the weight, but it is None inside the compiled function.
#            With two outputs and loss weights of 1, `a_loss + b_loss` is therefore not `loss`.
#            Callbacks such as `EarlyStopping(monitor="val_a_loss")` read the wrong value.
# Output seen (five examples with the losses 0, 0, 0, 0, 10, batches of 4):
#   compiled:           a_loss 5.0, b_loss 5.0, loss 4.0
#   run_eagerly=True:   a_loss 2.0, b_loss 2.0, loss 4.0
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

inputs = keras.Input((1,))
outputs = [
    keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False, name=name)(inputs)
    for name in ("a", "b")
]
model = keras.Model(inputs, outputs)
x, y = np.ones((5, 1)), np.array([[0.0], [0.0], [0.0], [0.0], [10.0]])
seen = []
for name, run_eagerly in (("compiled", False), ("run_eagerly=True", True)):
    model.compile(loss=["mae", "mae"], run_eagerly=run_eagerly)
    result = model.evaluate(x, [y, y], batch_size=4, verbose=0, return_dict=True)
    seen.append([result[key] for key in ("a_loss", "b_loss", "loss")])
    print(f"{name + ':':19s} a_loss {seen[-1][0]}, b_loss {seen[-1][1]}, loss {seen[-1][2]}")
assert seen == [[5.0, 5.0, 4.0], [2.0, 2.0, 4.0]]
END
  cat "$folder/log" >&2
  exit 1
}
