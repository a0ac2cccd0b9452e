#!/usr/bin/env bash
# With the TensorFlow backend, `ScheduleFreeAdamW` computes other weights than its formula.
#
# Version:   keras 3.15.1, tensorflow 2.21.0, jax 0.10.2
# Behaviour: The update keeps the momentum of the last update in `momentum_old`, changes the momentum,
#            and then uses `momentum_old`. With TensorFlow, `momentum_old` is the variable itself, so
#            it has the new value. The averaged weights are wrong from the second update on. With JAX,
#            `momentum_old` is a copy, and the weights follow the formula.
# Surprise:  The optimizer still trains, so nothing shows that it is not the published method. The
#            same program gives other weights with another backend.
# Output seen (one weight in the first five updates):
#   formula:    0.9 0.9696 0.9734 0.9256 0.9225
#   tensorflow: 0.9 0.9632 0.9717 0.9362 0.9264
#   jax:        0.9 0.9696 0.9734 0.9256 0.9225
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0 jax==0.10.2
cat > "$folder/train.py" <<'END'
import sys

import keras
import numpy as np

RATE, BETA_1, BETA_2 = 0.1, 0.9, 0.999
GRADIENTS = [1.0, -2.0, 0.5, 3.0, -1.0]


def formula():
    """Return the weights of the published method, without weight decay."""
    momentum = average = 1.0
    velocity, weights = 0.0, []
    for step, gradient in enumerate(GRADIENTS, start=1):
        velocity = BETA_2 * velocity + (1 - BETA_2) * gradient**2
        momentum -= RATE * gradient / np.sqrt(velocity / (1 - BETA_2**step))
        average += (momentum - average) / step
        weights.append((1 - BETA_1) * momentum + BETA_1 * average)
    return weights


def keras_weights():
    weight = keras.Variable(np.ones(1, "float32"))
    optimizer = keras.optimizers.ScheduleFreeAdamW(RATE, beta_1=BETA_1, beta_2=BETA_2)
    optimizer.build([weight])
    weights = []
    for gradient in GRADIENTS:
        optimizer.apply([keras.ops.convert_to_tensor([gradient], "float32")], [weight])
        weights.append(float(keras.ops.convert_to_numpy(weight)[0]))
    return weights


if keras.backend.backend() == "tensorflow":
    print("formula:   ", *(round(float(x), 4) for x in formula()))
print(f"{keras.backend.backend() + ':':11s}", *(round(x, 4) for x in keras_weights()))
assert np.allclose(formula(), keras_weights(), atol=1e-5) == (sys.argv[1] == "equal")
END
export TF_CPP_MIN_LOG_LEVEL=3
KERAS_BACKEND=tensorflow "$folder/bin/python" "$folder/train.py" other 2>/dev/null
KERAS_BACKEND=jax "$folder/bin/python" "$folder/train.py" equal 2>/dev/null
