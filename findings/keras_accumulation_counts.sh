#!/usr/bin/env bash
# With accumulated gradients, a learning-rate schedule and the moving average count batches.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: with `gradient_accumulation_steps=n`, an optimizer changes the weights after every n
#            batches, and `optimizer.iterations` counts these updates. A learning-rate schedule is
#            called with the number of batches instead. The moving average of `use_ema=True` is
#            updated after every batch, so each update counts n times in it.
# Surprise:  a schedule that is written for updates runs n times too fast. Below, the updates with two
#            batches each use every second rate. The average follows the weights faster than
#            `ema_momentum` says. The documentation of `gradient_accumulation_steps` says that the
#            variables of the model and of the optimizer change only every n steps.
# Output seen:
#   updates that the optimizer counts: 4
#   learning rates, 1 batch per update: [1.0, 0.5, 0.25, 0.125]
#   learning rates, 2 batches per update: [0.5, 0.125, 0.0312, 0.0078]
#   average of the weights 1, 2, 3, 4, 1 batch per update: 1.561
#   average of the weights 1, 2, 3, 4, 2 batches per update: 1.7805
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np


def train(batches_per_update, rate, **options):
    """Make four updates with gradient -1. Return the optimizer, its variable and the weights."""
    variable = keras.Variable([0.0])
    accumulated = batches_per_update if batches_per_update > 1 else None
    optimizer = keras.optimizers.SGD(rate, gradient_accumulation_steps=accumulated, **options)
    optimizer.build([variable])
    weights = []
    for _ in range(4):
        for _ in range(batches_per_update):
            optimizer.apply([np.array([-1.0], np.float32)], [variable])
        weights.append(float(variable[0]))
    return optimizer, variable, weights


def rates(batches_per_update):
    halved = keras.optimizers.schedules.ExponentialDecay(1.0, decay_steps=1, decay_rate=0.5)
    optimizer, _, weights = train(batches_per_update, halved)
    return int(optimizer.iterations), np.diff(weights, prepend=0.0).round(4).tolist()


def average(batches_per_update):
    optimizer, variable, weights = train(batches_per_update, 1.0, use_ema=True, ema_momentum=0.9)
    assert weights == [1.0, 2.0, 3.0, 4.0]
    optimizer.finalize_variable_values([variable])  # writes the average into the variable
    return round(float(variable[0]), 4)


(count_1, rates_1), (count_2, rates_2) = rates(1), rates(2)
average_1, average_2 = average(1), average(2)
print("updates that the optimizer counts:", count_2)
print("learning rates, 1 batch per update:", rates_1)
print("learning rates, 2 batches per update:", rates_2)
print("average of the weights 1, 2, 3, 4, 1 batch per update:", average_1)
print("average of the weights 1, 2, 3, 4, 2 batches per update:", average_2)
assert count_1 == count_2 == 4 and rates_1 == [1.0, 0.5, 0.25, 0.125]
assert rates_2 == [0.5, 0.125, 0.0312, 0.0078]
assert (average_1, average_2) == (1.561, 1.7805)
END
