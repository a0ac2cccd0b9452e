#!/usr/bin/env bash
# Keras' `Adafactor` stores a number for each weight, so it does not save memory.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: For a matrix, the optimizer keeps the row and column means of the squared gradients, and
#            also a variable `velocity` of the size of the matrix. The velocity is computed anew in
#            each update, so it needs no variable.
# Surprise:  The purpose of Adafactor is memory that grows with the sum of rows and columns, not with
#            their product. The documentation names this advantage. The state here is larger than
#            that of SGD with momentum, and half of Adam's.
# Output seen (a matrix of 1,000 x 1,000):
#   SGD with momentum: 1,000,000 numbers
#   Adafactor:         1,002,000 numbers
#   Adam:              2,000,000 numbers
#   the update reads the velocity: False
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np

SIZE = 1000
optimizers = {
    "SGD with momentum": keras.optimizers.SGD(momentum=0.9),
    "Adafactor": keras.optimizers.Adafactor(),
    "Adam": keras.optimizers.Adam(),
}
seen = {}
for name, optimizer in optimizers.items():
    matrix = keras.Variable(np.ones((SIZE, SIZE), "float32"))
    optimizer.build([matrix])
    # Without the iterations and the learning rate, which have one number.
    state = [int(np.prod(v.shape)) for v in optimizer.variables if len(v.shape) > 0]
    seen[name] = sum(state)
    print(f"{name + ':':18s} {seen[name]:,} numbers")

# The update does not read the velocity: two optimizers differ only in it and train equally.
results = []
for start in (0.0, 7.0):
    matrix = keras.Variable(np.ones((3, 3), "float32"))
    optimizer = keras.optimizers.Adafactor()
    optimizer.build([matrix])
    (velocity,) = [v for v in optimizer.variables if v.shape == matrix.shape]
    velocity.assign(np.full((3, 3), start))
    optimizer.apply([np.arange(9, dtype="float32").reshape(3, 3)], [matrix])
    results.append(matrix.numpy())
print("the update reads the velocity:", not np.array_equal(*results))
assert seen == {
    "SGD with momentum": SIZE**2,
    "Adafactor": SIZE**2 + 2 * SIZE,
    "Adam": 2 * SIZE**2,
}
assert np.array_equal(*results)
END
