"""Segments of a recurrence: training with a carried state.

The authors of HRM and TRM call this deep supervision.

A recurrence with M segments of k steps takes M · k steps at inference. H_t^m is the state after
step t of segment m:

    H_0^1 = the initial state,   H_0^m = stop_gradient(H_k^{m-1})
    H_t^m = Step_t(H_{t-1}^m),   t = 1 .. k,   m = 1 .. M

In training, a forward pass takes only the k steps of one segment. It starts from the state that the
previous segment has carried. `optimizers.batch_update` runs the M segments of a batch one after the
other. Each segment has its own loss, gradient and update, so segment m + 1 uses the weights that
segment m has updated. The gradient does not pass from a segment into an earlier segment. Therefore
it needs only the intermediate tensors of k steps. An input injection reads the embeddings in every
step of every segment.

At inference, a forward pass takes all M · k steps. It computes the same function as the segments,
because step t of every segment has the same step signal (`StepTimingSignal.repeats`).

With adaptive depth, the halting rule must predict whether the output is correct, as `QHalting`
does. A position or example halts after the segment in which inference would halt it. Its weight in
the loss is 0 in all later segments. The denominator of the loss still counts it, so the weights of
the other positions do not change.

The Hierarchical Reasoning Model (HRM) and the Tiny Recursive Model (TRM) are trained in such
segments. Their code differs from ut_keras as follows:

- The next example replaces a halted example in the batch. Here, the M segments of a batch follow
  each other, and a halted example stays in the batch with the weight 0.
- With some probability, an example must take a random number of segments before it may halt. Here,
  there is no such exploration.
- Evaluation takes all segments. Here, inference halts too, except with `exit_threshold=1.0`.

We wrote these statements from memory, and could not verify them against the papers or their code.

References: Wang et al. 2025, Hierarchical Reasoning Model; Jolicoeur-Martineau 2025, Less is More:
    Recursive Reasoning with Tiny Networks.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError, UniversalTransformerHParams
from ut_keras.layers.basic.layer import check_least
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth.act_step import ACTLoopState
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.halting import halting


class Carried(NamedTuple):
    """The values that a segment carries to the next segment, without gradient.

    The last three fields are None without adaptive depth.
    """

    state: tf.Tensor  # [B, S, D], the state after the last step
    output: tf.Tensor | None = None  # [B, S, D]
    running: tf.Tensor | None = None  # U bool, True where the next segment has a loss
    ponder_times: tf.Tensor | None = None  # U float32, the number of steps so far


def num_steps(inputs: StepInputs, steps: int, num_segments: int) -> int:
    """Return the largest number of steps of a forward pass.

    Args:
        inputs: `StepInputs`.
        steps: int k, the number of steps of a segment.
        num_segments: int M.

    Raises:
        ValueError: if a call in training sets the number of steps, and there are several segments.
    """
    if num_segments == 1:
        return inputs.num_steps or steps
    if not inputs.training:
        return inputs.num_steps or num_segments * steps
    if inputs.num_steps is not None:
        raise ValueError(
            f"num_steps must be None in training with {num_segments} segments, where a forward "
            f"pass takes the {steps} steps of one segment. Received: {inputs.num_steps}."
        )
    return steps


def carry(state: tf.Tensor) -> Carried:
    """Return what a recurrence of fixed depth carries: its last state [B, S, D]."""
    return Carried(tf.stop_gradient(state))


def resume(start: ACTLoopState, carried: Carried | None) -> ACTLoopState:
    """Return the loop state before the first step of a segment.

    Args:
        start: `ACTLoopState` before the first step of the first segment.
        carried: the `Carried` of the previous segment. None in the first segment.
    """
    if carried is None:
        return start
    probability = tf.where(carried.running, start.halting.halting_probability, 1.0)
    return start._replace(
        state=carried.state,
        output=carried.output,
        halting=start.halting._replace(halting_probability=probability),
    )


def with_carried(
    rule: halting.Rule,
    output: StackOutput,
    start: ACTLoopState,
    last: ACTLoopState,
    carried: Carried | None,
) -> StackOutput:
    """Return the output of a segment with adaptive depth, with the field `carried`.

    The ponder times of the result count the steps of all segments so far.

    Args:
        rule: the halting rule.
        output: `StackOutput` of the segment, whose field `steps` has the confidence of every step.
        start, last: `ACTLoopState` before the first step and after the last step of the segment.
        carried: the `Carried` of the previous segment. None in the first segment.
    """
    steps: Any = output.steps
    ponder_times: Any = output.ponder_times
    if carried is not None:
        ponder_times += carried.ponder_times
    halts = tf.reduce_any(tf.sigmoid(steps.confidence) > 1.0 - rule.epsilon, axis=0)
    values = (last.state, last.output, start.halting.running & ~halts, ponder_times)
    return output._replace(
        ponder_times=ponder_times, carried=Carried(*map(tf.stop_gradient, values))
    )


def check_arguments(
    num_segments: int, timing: Any, steps_sampling: Any, rule: halting.Rule | None = None
) -> None:
    """Check the arguments of a recurrence.

    Args:
        num_segments, timing, steps_sampling: the arguments of the recurrence.
        rule: the halting rule. None: the number of steps is fixed.

    Raises:
        ValueError: if num_segments < 1. Also in these cases, if there are several segments.

            - `timing` is a `StepTimingSignal` without `repeats`.
            - `steps_sampling` is set.
            - The rule does not implement `confidence`.
    """
    check_least("num_segments", num_segments, 1)
    if num_segments == 1:
        return
    if not getattr(timing, "repeats", True):
        raise ValueError(
            "num_segments requires a timing layer with repeats=True, so that all segments have the "
            f"same signals. Received: num_segments={num_segments} with repeats=False."
        )
    if steps_sampling is not None:
        raise ValueError(
            "num_segments cannot be combined with steps_sampling, because all segments take the "
            f"same steps. Received: num_segments={num_segments}."
        )
    if rule is not None and type(rule).confidence is halting.Rule.confidence:
        raise ValueError(
            "num_segments requires a halting rule with confidence, such as QHalting. "
            f"Received: num_segments={num_segments} with {type(rule).__name__}."
        )


def check_hparams(hp: UniversalTransformerHParams, side: parts.Side) -> None:
    """Check that the other hparams and the kind of model allow several segments.

    Raises:
        HParamError: if they do not.
    """
    given = f"Received: recurrence_segments={hp.recurrence_segments}"
    if side == "decoder" or not side.predicts:
        raise HParamError(
            "recurrence_segments requires the model universal_transformer_encoder or a problem "
            f"without inputs. {given} for an encoder and a decoder."
        )
    if hp.recurrence_type not in ("basic", "act"):
        raise HParamError(
            "recurrence_segments requires recurrence_type='basic' or 'act'. "
            f"{given} with recurrence_type={hp.recurrence_type!r}."
        )
    if hp.recurrence_type == "act" and hp.act_type != "q_halt":
        raise HParamError(
            "recurrence_segments requires act_type='q_halt' if recurrence_type='act'. "
            f"{given} with act_type={hp.act_type!r}."
        )
    if hp.num_rec_steps_sampling is not None:
        raise HParamError(
            "recurrence_segments requires num_rec_steps_sampling=None, because all segments take "
            f"the same steps. {given} with num_rec_steps_sampling={hp.num_rec_steps_sampling}."
        )
