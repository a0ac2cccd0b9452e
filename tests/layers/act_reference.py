"""Adaptive Computation Time in numpy. It computes the equations for one position at a time."""

import numpy as np


def ponder(
    state,
    signals,
    block,
    halting_weights,
    max_steps,
    epsilon=0.01,
    act_type="basic",
    halted_state="transform",
    force_final_remainder=False,
    padding_mask=None,
):
    """Apply a block until all positions halt or `max_steps` is reached.

    Args:
        state: array [B, S, D], the state before the first step.
        signals: list with an array [S, D] or a scalar for each step.
        block: function from [B, S, D] to [B, S, D].
        halting_weights: (kernel [D, 1], bias [1]) of the halting probability.
        padding_mask: bool [B, S], True at real positions. If it is given, padding takes no step.
        max_steps, epsilon, act_type, halted_state, force_final_remainder: see
            `AdaptiveComputationTime`.

    Returns:
        (output [B, S, D], number of steps N, remainders R). N and R are [B, S], or [B] if act_type
        is "global".
    """
    kernel, bias = (np.asarray(weight, "float64") for weight in halting_weights)
    batch, length, _ = state.shape
    state = np.asarray(state, "float64")
    together = act_type == "global"
    units = [(b,) for b in range(batch)] if together else list(np.ndindex(batch, length))
    real = np.ones((batch, length), bool) if padding_mask is None else padding_mask
    shape = (batch,) if together else (batch, length)
    steps, remainders, sums = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    halted = np.zeros(shape, bool) if together else ~real
    output = np.zeros_like(state)

    for n in range(1, max_steps + 1):
        frozen = np.broadcast_to(halted[:, None] if together else halted, (batch, length))
        frozen = frozen[..., None] & (halted_state == "copy")
        x = np.where(frozen, state, state + signals[n - 1])
        p = 1 / (1 + np.exp(-(x @ kernel + bias)[..., 0]))
        if together:
            p = np.array([p[b][real[b]].mean() for b in range(batch)])
        state = np.where(frozen, state, np.asarray(block(x)))
        for unit in units:
            if halted[unit]:
                continue
            steps[unit] = n
            weight = p[unit]
            if sums[unit] + p[unit] > 1 - epsilon or (force_final_remainder and n == max_steps):
                halted[unit] = True
                weight = remainders[unit] = 1 - sums[unit]
            sums[unit] += p[unit]
            if act_type == "accumulated":
                output[unit] += weight * state[unit]
            else:
                output[unit] = weight * state[unit] + (1 - weight) * output[unit]
    return output, steps, remainders
