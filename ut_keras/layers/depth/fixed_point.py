"""Fixed points of a recurrence: the change of the state per step, and its loss.

    |H_t - H_{t-1}| / |H_t|          the residual of step t, for each position

If a recurrence converges to a fixed point, the residual approaches 0, and further steps do not
change the output. `model.inspect` returns the residuals of all steps. The halting rule
`ConvergenceHalting` halts a position when its residual is less than epsilon.

The fixed-point loss is the mean residual of the last step that each position takes. The gradient of
the loss treats |H_t| as a constant, so training cannot reduce the loss by making the states larger.

We know of no paper that defines the loss in this form. We could not verify how the loss relates to
published terminal fixed-point losses.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.ops import step_loop

_TINY = 1e-24  # a smaller squared norm is treated as this value, so no division is by 0


class Record(NamedTuple):
    """The values that a loop over steps records about its steps."""

    residuals: Any  # TensorArray of float32 [B, S]. () if residuals are not recorded.
    # The pair (state before, state after) of the last step of each position, two tensors [B, S, D].
    # () if there is no fixed-point loss.
    last: Any


def residual(before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """Return |after - before| / |after| for each position, float32 [B, S].

    Args:
        before, after: float tensors [B, S, D].
    """
    before, after = (tf.cast(x, tf.float32) for x in (before, after))
    change = tf.reduce_sum(tf.square(after - before), axis=-1)
    size = tf.stop_gradient(tf.reduce_sum(tf.square(after), axis=-1))
    # The gradient of a square root is infinite at 0. With `tf.where` and `tf.maximum`, the gradient
    # at 0 is 0.
    change = tf.where(change > _TINY, tf.sqrt(tf.maximum(change, _TINY)), 0.0)
    return change / tf.sqrt(tf.maximum(size, _TINY))


def start(state: tf.Tensor, records: bool | None, has_loss: bool, max_steps: int) -> Record:
    """Return an empty record.

    Args:
        state: float tensor [B, S, D].
        records: bool. Whether the loop records the residual of every step.
        has_loss: bool. Whether the loop has a fixed-point loss.
        max_steps: int, the largest possible number of steps.
    """
    residuals: Any = step_loop.empty_array(max_steps) if records else ()
    last = (tf.zeros_like(state), tf.zeros_like(state)) if has_loss else ()
    return Record(residuals, last)


def add(
    record: Record,
    step: tf.Tensor,
    before: tf.Tensor,
    after: tf.Tensor,
    running: tf.Tensor | None = None,
) -> Record:
    """Return the record with one more step.

    Args:
        record: `Record`, or () if nothing is recorded.
        step: int32 scalar, the number of earlier steps.
        before, after: float tensors [B, S, D], the state before and after the step.
        running: bool tensor that broadcasts to [B, S, 1], True at the positions that take the step.
            None: all positions take the step.
    """
    if not record:
        return record
    residuals, last = record.residuals, record.last
    if not isinstance(residuals, tuple):
        residuals = residuals.write(step, residual(before, after))
    if last:
        pair = tuple(tf.convert_to_tensor(x) for x in (before, after))
        if running is not None:
            pair = tuple(tf.where(running, new, old) for new, old in zip(pair, last, strict=True))
        for new, old in zip(pair, last, strict=True):
            new.set_shape(old.shape)
        last = pair
    return Record(residuals, last)


def finish(record: Record, num_steps: Any) -> dict[str, tf.Tensor | None]:
    """Return the fields `residuals` and `last_residual` of a `StackOutput`.

    Args:
        num_steps: int, or int32 scalar: the number of steps taken.
    """
    if not record:
        return {}
    residuals = None
    if not isinstance(record.residuals, tuple):
        residuals = step_loop.stack_array(record.residuals, num_steps)
    return {
        "residuals": residuals,
        "last_residual": residual(*record.last) if record.last else None,
    }
