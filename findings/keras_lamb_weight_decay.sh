#!/usr/bin/env bash
# The trust ratio of `Lamb` does not scale the weight decay.
#
# Version:   keras 3.15.1
# Behaviour: In the paper (You et al. 2020, algorithm 2), the decay is added to the step of Adam,
#            and the trust ratio scales the sum. As in `AdamW`, Keras multiplies the weights by
#            `1 - learning_rate * weight_decay` before the update. The trust ratio does not include
#            the decay.
# Surprise:  Without gradients, the paper's rule multiplies the weights by `1 - learning_rate` in
#            each update, for every decay above 0. With a decay of 0.01, Keras decays them 100 times
#            more slowly. With the settings of a paper, Keras therefore trains another model.
# Output seen (weight 2, gradient 0, learning rate 0.1, decay 0.01):
#   Keras: 1.998, paper: 1.8
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


def paper(w, gradient, rate, decay, epsilon=1e-7):
    """The first update of LAMB: with bias correction, the means are the gradient."""
    step = gradient / (np.abs(gradient) + epsilon) + decay * w
    return w - rate * np.linalg.norm(w) / np.linalg.norm(step) * step


def of_keras(w, gradient, rate, decay):
    variable = keras.Variable(w)
    optimizer = keras.optimizers.Lamb(rate, weight_decay=decay)
    optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
    return variable.numpy()


w, zero = np.array([2.0], "float32"), np.zeros(1, "float32")
print(f"Keras: {of_keras(w, zero, 0.1, 0.01)[0]:.4g}, paper: {paper(w, zero, 0.1, 0.01)[0]:.4g}")
gradient = np.array([0.5], "float32")
np.testing.assert_allclose(of_keras(w, gradient, 0.1, 0.0), paper(w, gradient, 0.1, 0.0), rtol=1e-5)
np.testing.assert_allclose(of_keras(w, zero, 0.1, 0.01), [1.998], rtol=1e-5)
np.testing.assert_allclose(paper(w, zero, 0.1, 0.01), [1.8], rtol=1e-5)
END
  cat "$folder/log" >&2
  exit 1
}
