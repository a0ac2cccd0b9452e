#!/usr/bin/env bash
# After an error inside `tf.map_fn`, `strategy.scope()` fails for the rest of the process.
#
# Version:   tensorflow 2.21.0
# Behaviour: `tf.map_fn` in a graph sets a caching device for variables while it traces its
#            function. If the function raises an error, the caching device stays set, even after the
#            graph is deleted. The next `strategy.scope()` raises NotImplementedError about caching
#            devices. Every later call raises RuntimeError about mixed strategies.
# Surprise:  the error was caught, no variable was created, and no strategy was used before. The
#            messages do not mention `tf.map_fn`. In a notebook, only a restart helps.
# Output seen:
#   strategy.scope() before: works
#   Dataset.map with an error in tf.map_fn: ValueError
#   strategy.scope() after: NotImplementedError: Caching devices is not yet supported
#   strategy.scope() again: RuntimeError: Mixing different tf.distribute.Strategy
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import tensorflow as tf


def rejected(value):
    raise ValueError("not a valid row")


def scope():
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        return "works"


def result(function, words):
    try:
        return function()
    except Exception as error:
        return " ".join([f"{type(error).__name__}:", *str(error).split()[:words]]).rstrip(": ")


def make_dataset():
    return tf.data.Dataset.from_tensors([1, 2]).map(lambda row: tf.map_fn(rejected, row))


seen = {
    "strategy.scope() before": result(scope, 0),
    "Dataset.map with an error in tf.map_fn": result(make_dataset, 0),
    "strategy.scope() after": result(scope, 6),
    "strategy.scope() again": result(scope, 3),
}
for name, value in seen.items():
    print(f"{name}: {value}")
assert [*seen.values()] == [
    "works",
    "ValueError",
    "NotImplementedError: Caching devices is not yet supported",
    "RuntimeError: Mixing different tf.distribute.Strategy",
]
END
