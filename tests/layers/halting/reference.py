"""Reference implementations of halting rules in numpy, from their equations."""

import math

import numpy as np

_erf = np.vectorize(math.erf)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def stick_breaking(weights):
    """Return a function that maps the state after a step to the shares l [B, S].

    Args:
        weights: list of the kernel and bias of the hidden layer, and the kernel and bias of the
            gate.
    """
    kernel, bias, gate_kernel, gate_bias = (np.asarray(weight, "float64") for weight in weights)

    def share(state):
        hidden = state @ kernel + bias
        hidden = hidden * (1 + _erf(hidden / math.sqrt(2))) / 2  # gelu
        return _sigmoid(hidden @ gate_kernel + gate_bias)[..., 0]

    return share


def ponder_net(weights):
    """Return a function that maps the state after a step to the shares l [B, S].

    Args:
        weights: (W [D, 1], b [1]).
    """
    kernel, bias = (np.asarray(weight, "float64") for weight in weights)
    return lambda state: _sigmoid(state @ kernel + bias)[..., 0]


def distribution(shares, epsilon):
    """Return the weights w [N] of one position from its shares l [N].

    The position takes at most N steps. Its last step gets the remaining weight.
    """
    weights, left = np.zeros(len(shares)), 1.0
    for n, share in enumerate(shares):
        piece = share * left
        if n == len(shares) - 1 or 1 - left + piece > 1 - epsilon:
            weights[n] = left
            return weights
        weights[n] = piece
        left -= piece
    return weights


def run(state, signals, block, halts, halted_state, padding_mask):
    """Apply a block in N steps, and count the steps of each position until it halts.

    Args:
        state: array [B, S, D], the state before the first step.
        signals: list with an array [S, D] for each step.
        block: function from [B, S, D] to [B, S, D].
        halts: function of two lists of arrays [B, S, D]: the states before each step so far, and
            the states after each step so far. It returns bool [B, S], True for positions that halt.
        halted_state: "transform" or "copy".
        padding_mask: None or bool [B, S], True at real positions. If it is given, padding takes
            no step.

    Returns:
        (states [N, B, S, D], number of steps of each position [B, S]).
    """
    state = np.asarray(state, "float64")
    halted = np.zeros(state.shape[:2], bool) if padding_mask is None else ~padding_mask
    taken = np.zeros(state.shape[:2])
    befores, afters = [], []
    for signal in signals:
        frozen = halted[..., None] & (halted_state == "copy")
        x = np.where(frozen, state, state + signal)
        befores.append(state)
        state = np.where(frozen, state, np.asarray(block(x)))
        afters.append(state)
        taken += ~halted
        halted |= halts(befores, afters)
    return np.stack(afters), taken
