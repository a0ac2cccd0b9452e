#!/usr/bin/env bash
# Keras fit ignores a learning-rate schedule that is assigned to the optimizer after a first fit.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: the first `fit` compiles a train function, which contains the learning rate: as a variable
#            or as the operations of a schedule. A schedule that is assigned to
#            `optimizer.learning_rate` later does not change this function, and the next `fit` calls
#            the same function. `compile` makes a new one. With `run_eagerly=True`, `fit` uses the new
#            schedule.
# Surprise:  there is no error, and `optimizer.learning_rate` reports the value of the new schedule. A
#            number that is assigned to `optimizer.learning_rate` takes effect at once.
# Output seen:
#   learning rate of 0.1 in the first fit, then 0.5 in the second fit and after compile:
#   number, then number: reported 0.5, used [0.1, 0.5, 0.5]
#   number, then schedule: reported 0.5, used [0.1, 0.1, 0.5]
#   schedule, then schedule: reported 0.5, used [0.1, 0.1, 0.5]
#   the same with run_eagerly=True: reported 0.5, used [0.1, 0.5, 0.5]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import numpy as np


def schedule(rate):
    """Return a schedule that always has this learning rate."""
    return keras.optimizers.schedules.ExponentialDecay(rate, decay_steps=1, decay_rate=1.0)


def update(model):
    """Make an update with gradient -1. Return the learning rate, which is the change of the weight."""
    before = model.get_weights()[0].item()
    model.fit(np.ones([1, 1]), np.ones([1, 1]), verbose=0)
    return round(model.get_weights()[0].item() - before, 4)


def compile_model(model, optimizer, **options):
    model.compile(optimizer, loss=lambda _, outputs: -outputs, **options)


def rates(first, second, **options):
    """Assign a second learning rate after an update with the first.

    Return the learning rate that the optimizer reports then, and the learning rates of the first
    update, of the second update, and of an update after `compile`.
    """
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    optimizer = keras.optimizers.SGD(first)
    compile_model(model, optimizer, **options)
    used = [update(model)]
    optimizer.learning_rate = second
    used.append(update(model))
    reported = round(float(optimizer.learning_rate), 4)
    compile_model(model, optimizer, **options)
    return reported, [*used, update(model)]


seen = {
    "number, then number": rates(0.1, 0.5),
    "number, then schedule": rates(0.1, schedule(0.5)),
    "schedule, then schedule": rates(schedule(0.1), schedule(0.5)),
    "the same with run_eagerly=True": rates(schedule(0.1), schedule(0.5), run_eagerly=True),
}
print("learning rate of 0.1 in the first fit, then 0.5 in the second fit and after compile:")
for name, (reported, used) in seen.items():
    print(f"{name}: reported {reported}, used {used}")
right, ignored = (0.5, [0.1, 0.5, 0.5]), (0.5, [0.1, 0.1, 0.5])
assert list(seen.values()) == [right, ignored, ignored, right]
END
