"""Compute predictions and changes of the state after each step of a recurrence.

    seen = observer.observe(model, features, encoders)
    seen.steps["decoder"].logits            [N, T, V]
    seen.steps["decoder"].residuals         [N, S]

The output after step t is what the stack would return if it stopped after step t. This module
applies the last norm and the head of the model to this output. It adds no weights and needs no
training.

- A fixed number of steps: the output after step t is the state H_t.
- Adaptive halting: the output after step t combines the states of steps 1 .. t with the weights of
  the halting rule. The output of a position that has halted does not change any more.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ut_keras.hparam_schema import limits
from ut_keras.layers.depth.step_recording import RecordedSteps, StatePatch

TOP = 5  # the number of tokens in `Steps.top_tokens`


class Steps(NamedTuple):
    """The N steps that a stack takes for one example, at S positions.

    The last four fields describe predictions, for T positions that predict. They are empty for the
    encoder of a model with a decoder, because such an encoder predicts nothing. T is 1 for a class.
    """

    stack: str  # "encoder" or "decoder"
    labels: list  # S str, as in `PonderTimes`
    states: np.ndarray  # [N, S, D] float32, the state H_t after each step
    # [N, S] float32, |H_t - H_{t-1}| / |H_t|. After a position has halted, its residual is 0.
    residuals: np.ndarray
    # [N, S] bool, whether the position had not halted before the step. Without adaptive halting,
    # all values are True.
    running: np.ndarray
    # [N, S] float32, the sum of the halting probabilities until each step, and 1 after a position
    # has halted. None without adaptive halting.
    halting_probability: np.ndarray | None
    # T str, the labels of the positions that predict. They are the output tokens of a decoder, the
    # input tokens of an encoder without a decoder, or "prediction" for a class.
    outputs: list
    logits: np.ndarray  # [N, T, V] float32
    top_tokens: list  # [N][T] lists of at most `TOP` str, the most likely token first
    top_probabilities: list  # [N][T] lists of float, the probabilities of `top_tokens`

    def __repr__(self) -> str:
        """Return one line per step: each position's most likely token, or the residuals."""
        shown = "" if self.outputs else ", residuals"
        return "\n".join(
            f"step {number + 1} of the {self.stack}{shown}: {self._words(number)}"
            for number in range(len(self.states))
        )

    def likely_values(self, most: int) -> tuple[list, np.ndarray]:
        """Return the most likely values of a single prediction, over all steps.

        Args:
            most: int, the maximum number K of values.

        Returns:
            (K labels, float32 [N, K], the probability of each value after each step).
        """
        labels: dict[int, str] = {}
        logits = self.logits[:, 0]
        for ids, [tokens] in zip(_best(logits).tolist(), self.top_tokens, strict=True):
            labels.update(zip(ids, tokens, strict=True))
        chances = _softmax(logits)
        ids = sorted(labels, key=lambda value: -chances[:, value].max())[:most]
        return [labels[value] for value in ids], chances[:, ids]

    def _words(self, number):
        if not self.outputs:
            pairs = zip(self.labels, self.residuals[number], strict=True)
            return " ".join(f"{label}:{residual:.2g}" for label, residual in pairs)
        tokens, probabilities = self.top_tokens[number], self.top_probabilities[number]
        pairs = zip(tokens, probabilities, strict=True)
        return " ".join(f"{names[0]}:{values[0]:.2f}" for names, values in pairs)


class Predictions(NamedTuple):
    """The predictions of a model after each step of its last stack, see `Steps`."""

    outputs: list
    logits: np.ndarray
    top_tokens: list
    top_probabilities: list


NO_PREDICTIONS = Predictions([], np.zeros([0, 0, 0], "float32"), [], [])


def steps(
    stack: str,
    recorded: RecordedSteps,
    labels: list,
    kept: np.ndarray,
    predictions: Predictions = NO_PREDICTIONS,
) -> Steps:
    """Return the `Steps` of the only example of a batch.

    Args:
        stack: "encoder" or "decoder".
        recorded: the `RecordedSteps` of the stack.
        labels: list of str, one label for each position that is not padding.
        kept: bool [positions], True where a position is not padding.
        predictions: `Predictions` of the stack.
    """
    states = np.asarray(recorded.states, "float32")[:, 0, kept]
    num_steps, num_positions = len(states) - 1, states.shape[1]
    running, halting_probability = np.ones([num_steps, num_positions], bool), None
    if recorded.halting is not None:
        halting = recorded.halting
        probability, taken = (
            _by_position(np.asarray(x)[:, 0], len(kept))[:, kept]
            for x in (halting.halting_probability, halting.n_updates)
        )
        running, halting_probability = np.diff(taken, axis=0) > 0, probability[1:]
    change = np.linalg.norm(np.diff(states, axis=0), axis=-1)
    size = np.linalg.norm(states[1:], axis=-1)
    residuals = np.divide(change, size, out=np.zeros_like(change), where=running & (size > 0))
    parts = (states[1:], residuals, running, halting_probability)
    return Steps(stack, labels, *parts, *predictions)


def _by_position(values, num_positions):
    """Return `values` as [N, S]. The argument is [N] if all positions halt together."""
    values = values if values.ndim > 1 else values[:, np.newaxis]
    return np.broadcast_to(values, [len(values), num_positions])


def predictions(logits: np.ndarray, outputs: list, names: Callable[[list], list]) -> Predictions:
    """Return the `Predictions` for logits [N, T, V].

    Args:
        logits: float32 [N, T, V].
        outputs: list of T str.
        names: function from a list of ids to a list of labels.
    """
    best = _best(logits)
    values = np.take_along_axis(_softmax(logits), best, axis=-1)
    tokens = [[names(ids) for ids in step] for step in best.tolist()]
    return Predictions(outputs, logits, tokens, values.tolist())


def _softmax(logits):
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def _best(logits):
    """Return the ids of the largest logits, int [..., TOP]."""
    return np.argsort(-logits, axis=-1, kind="stable")[..., :TOP]


def logits_by_step(
    model: Any, recorded: RecordedSteps, padding_mask: tf.Tensor | None, kept: np.ndarray
) -> np.ndarray:
    """Return the logits after each step, float32 [N, T, V].

    The batch has only one example.

    Args:
        model: a model of `ut_keras.models`.
        recorded: the `RecordedSteps` of the stack that predicts.
        padding_mask: bool [1, positions], True at real tokens. Only classes need it. Optional.
        kept: bool [positions], True where a position is not padding. Classes do not need it.
    """
    found = []
    for output in recorded.outputs:
        logits = np.asarray(model.logits(output, padding_mask=padding_mask), "float32")
        found.append(logits if model.class_labels else logits[0, kept])
    return np.stack(found) if found else NO_PREDICTIONS.logits


Replacement = Mapping[int | tuple[str, int], Any]


def patches(
    replace: Replacement, kept: Mapping[str, np.ndarray], hidden_size: int
) -> dict[str, dict[int, StatePatch]]:
    """Return the patches that `Seq2Seq.forward` takes.

    Args:
        replace: dict. A key is the number of a step of the last stack, from 1, or the tuple
            ("encoder", step) for a step of the encoder. A value is the new state [S, D] of all
            positions that are not padding.
        kept: dict from the name of a stack to bool [positions], True where a position is not
            padding. The last entry is the last stack.
        hidden_size: int D.

    Raises:
        ValueError: if a key or a value is not as described.
    """
    found: dict[str, dict[int, StatePatch]] = {}
    for key, value in replace.items():
        stack, step = key if isinstance(key, tuple) and len(key) == 2 else ([*kept][-1], key)
        if stack not in kept or limits.why_no_int(step, 1):
            raise ValueError(
                "A key of replace must be a step from 1, or a pair (stack, step) with a stack of "
                f"{tuple(kept)}. Received: {key!r}."
            )
        if step in found.get(stack, {}):
            raise ValueError(
                f"The keys of replace must be different steps. Received: {[*replace]!r}, with step "
                f"{step} of the {stack} twice."
            )
        where = kept[stack]
        shape = (int(where.sum()), hidden_size)
        new = np.asarray(value)
        if new.shape != shape or new.dtype.kind not in "fiu":
            raise ValueError(
                f"replace[{key!r}] must be an array of {shape} numbers, a state of each position. "
                f"Received: shape {new.shape} and dtype {new.dtype}."
            )
        state = np.zeros([1, len(where), hidden_size], "float32")
        state[0, where] = new
        found.setdefault(stack, {})[step] = StatePatch(
            tf.constant(where[np.newaxis]), tf.constant(state)
        )
    return found


def check_were_taken(
    patches: Mapping[str, Mapping[int, StatePatch]], steps: Mapping[str, Steps]
) -> None:
    """Check that the model has taken every step whose state was replaced.

    Raises:
        ValueError: if the model has not taken such a step, or if the stack records no steps.
    """
    for stack, by_step in patches.items():
        if stack not in steps:
            raise ValueError(
                "replace requires a recurrence in depth that records its steps. "
                f"Received: a step of the {stack}, which does not."
            )
        if (last := len(steps[stack].states)) < max(by_step):
            raise ValueError(
                f"replace must have steps of the {stack} up to {last}, because the model takes "
                f"{last} for this input. Received: step {max(by_step)}."
            )
