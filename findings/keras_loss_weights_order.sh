#!/usr/bin/env bash
# With a list of losses and a dict of `loss_weights`, an output can get the weight of another one.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: `compile(loss=[…], loss_weights={…})` sorts the names in the dict and takes the weights
#            in this order. The list of losses has the order of the model's outputs. If the outputs
#            are not in alphabetical order, losses get the weights of other outputs.
# Surprise:  The documentation says that a dict maps the names of outputs to weights, and that a
#            list of losses has the order of the outputs. With a dict of losses, the weights are
#            right.
# Output seen (outputs "words" with loss 1 and "length" with loss 0; the weights are 1 and 0):
#   loss as a dict: total 1.0
#   loss as a list: total 0.0
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
names = ["words", "length"]
layers = [keras.layers.Dense(1, kernel_initializer="ones", name=name) for name in names]
model = keras.Model(inputs, [layer(inputs) for layer in layers])
assert model.output_names == names
x = np.ones((2, 1))
totals = {}
for form, loss in (("dict", {name: "mse" for name in names}), ("list", ["mse", "mse"])):
    model.compile(loss=loss, loss_weights={"words": 1.0, "length": 0.0})
    # The target of "words" is 0, so its loss is 1. The target of "length" is 1, so its loss is 0.
    result = model.evaluate(x, [0 * x, x], verbose=0, return_dict=True)
    assert result["words_loss"] == 1.0 and result["length_loss"] == 0.0
    totals[form] = result["loss"]
    print(f"loss as a {form}: total {totals[form]}")
assert totals == {"dict": 1.0, "list": 0.0}
END
  cat "$folder/log" >&2
  exit 1
}
