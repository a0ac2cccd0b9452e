"""A reference implementation of the Neural GPU in numpy, from the equations."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def convolve(x, weights):
    """Convolve x [S, C] over positions, with the padding of TensorFlow's "SAME"."""
    kernel, bias = weights
    height, width = kernel.shape[:2]
    before = (height - 1) // 2
    padded = np.pad(x, [(before, height - 1 - before), (0, 0)])
    column = kernel[:, (width - 1) // 2]
    return np.stack(
        [
            sum(padded[at + tap] @ column[tap] for tap in range(height)) + bias
            for at in range(len(x))
        ]
    )


def conv_gru(x, weights):
    """Return the new state [S, D].

    `weights` has six arrays: a kernel and a bias for reset, gate and candidate, in this order.
    """
    reset, gate, candidate = weights[:2], weights[2:4], weights[4:]

    def saturating(z):
        return np.clip(1.2 * sigmoid(z) - 0.1, 0, 1)

    r, u = saturating(convolve(x, reset)), saturating(convolve(x, gate))
    return u * x + (1 - u) * np.tanh(convolve(r * x, candidate))


def diagonal_conv_gru(x, weights, shift_axis):
    """Return (new state [S, D], saturation)."""
    reset, gate, candidate = weights[:2], weights[2:4], weights[4:]
    z = [convolve(x, part) for part in (reset, gate)]
    r, u = (np.clip(0.5 * part + 0.5, 0, 1) for part in z)
    saturation = np.mean([np.maximum(np.abs(part) - 0.9, 0).mean() for part in z])
    length, size = x.shape
    third = size // 3
    shifted = np.zeros_like(x)
    shifted[:, : size - 2 * third] = x[:, : size - 2 * third]
    if shift_axis == "length":
        for position in range(length):
            if position > 0:
                part = slice(size - 2 * third, size - third)
                shifted[position, part] = x[position - 1, part]
            if position + 1 < length:
                shifted[position, size - third :] = x[position + 1, size - third :]
    state = u * shifted + (1 - u) * np.tanh(convolve(r * x, candidate))
    return state, saturation
