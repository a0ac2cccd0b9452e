#!/usr/bin/env bash
# Under XLA, the same seed and generator give other random floats, although the bits are the same.
#
# Version:   tensorflow 2.21.0
# Behaviour: `tf.random.stateless_uniform` with a given seed and alg="philox" returns other floats in
#            a function with `jit_compile=True`. The random integers are equal. TensorFlow makes a
#            float from the lower 23 bits of an integer, and XLA from the upper bits.
#            If the seed is a constant of the function, TensorFlow computes the floats before XLA
#            does, so they are equal.
# Surprise:  the documentation of `stateless_uniform` says that the same seed and shape give the same
#            numbers on the same hardware, and on CPUs and GPUs. Here both runs use the same CPU.
# Output seen:
#   integers are equal: True
#   floats without XLA: [0.8748, 0.3749, 0.6605]
#   floats with XLA: [0.8083, 0.2722, 0.0111]
#   floats from the lower bits equal those without XLA: True
#   floats from the upper bits equal those with XLA: True
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import numpy as np
import tensorflow as tf


SEED = tf.constant([3, 2])


def floats(seed):
    return tf.random.stateless_uniform([3], seed, alg="philox")


def integers(seed):
    return tf.random.stateless_uniform([3], seed, None, None, tf.uint32, alg="philox")


def both(function):
    compiled = tf.function(function, jit_compile=True)
    return tf.function(function)(SEED).numpy(), compiled(SEED).numpy()


def to_floats(bits):
    """Return floats in [0, 1) whose fraction has the given 23 bits."""
    return (bits | np.uint32(0x3F800000)).view(np.float32) - 1


bits, bits_xla = both(integers)
plain, with_xla = both(floats)
results = {
    "integers are equal": np.array_equal(bits, bits_xla),
    "floats without XLA": [round(float(value), 4) for value in plain],
    "floats with XLA": [round(float(value), 4) for value in with_xla],
    "floats from the lower bits equal those without XLA": np.array_equal(
        to_floats(bits & np.uint32(0x7FFFFF)), plain
    ),
    "floats from the upper bits equal those with XLA": np.array_equal(
        to_floats(bits >> np.uint32(9)), with_xla
    ),
}
for name, value in results.items():
    print(f"{name}: {value}")
assert results["integers are equal"] and not np.array_equal(plain, with_xla)
assert results["floats from the lower bits equal those without XLA"]
assert results["floats from the upper bits equal those with XLA"]
END
