"""Makes the arguments of a recurrence from hparams."""

from typing import Any

from ut_keras import parts
from ut_keras.hparam_schema import HParamError, UniversalTransformerHParams
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.depth import segments, stack
from ut_keras.layers.position import timing_signal
from ut_keras.layers.transition import sru


def arguments(hp: UniversalTransformerHParams, side: parts.Side) -> dict[str, Any]:
    """Return the arguments that all recurrences share, except the number of steps.

    Raises:
        HParamError: if `num_rec_steps_sampling`, `recurrence_input_injection`,
            `recurrence_segments` or `recurrence_supervised_every` is not supported for this
            `recurrence_type` or side.
    """
    if hp.recurrence_segments > 1:
        segments.check_hparams(hp, side)
    timing = _make_timing(hp, side)
    residual_scale = hp.residual_scale
    block = stack.make_block(hp, side, hp.num_inrecurrence_layers, "rec_layer", residual_scale)
    return {
        "block": block,
        "timing": timing,
        "name": "depth",
        "dtype": from_hparams.dtype_policy(hp),
        **_start_arguments(hp, side),
        **_training_arguments(hp, side),
    }


def _make_timing(hp, side):
    """Return the layer that adds the signals, and the SRU with `add_sru`."""
    steps = hp.act_max_steps if hp.recurrence_type == "act" else hp.num_rec_steps
    timing = timing_signal.make(hp, steps)
    if not hp.add_sru:
        return timing
    dtype = from_hparams.dtype_policy(hp)
    return sru.TimingAndSRU(timing, sru.make(hp, side), name="signals", dtype=dtype)


# The functions below omit each argument whose hparam has its default. A user's own recurrence class
# therefore need not accept the arguments of hparams that the user does not set.


def _start_arguments(hp, side):
    """Return the arguments for the first state, the input and the number of steps."""
    kwargs: dict[str, Any] = {}
    if hp.recurrence_input_injection != "none":
        # The other recurrences read the input or earlier states in their own way.
        if hp.recurrence_type not in ("basic", "act"):
            raise HParamError(
                "recurrence_input_injection requires recurrence_type='basic' or 'act'. "
                f"Received: {hp.recurrence_input_injection!r} with {hp.recurrence_type!r}."
            )
        kwargs["injection"] = parts.injections.get(hp.recurrence_input_injection)(hp, side)
    if hp.recurrence_initial_state != "embedding":
        make_initial_state = parts.initial_states.get(hp.recurrence_initial_state)
        kwargs["initial_state"] = make_initial_state(hp, side)
    if hp.num_rec_steps_sampling is not None:
        sampling = parts.step_samplings.get(hp.num_rec_steps_sampling)(hp, side)
        if sampling is not None:
            kwargs["steps_sampling"] = sampling
    return kwargs


def _training_arguments(hp, side):
    """Return the arguments that determine how the recurrence is trained."""
    kwargs: dict[str, Any] = {}
    if hp.recurrence_supervised_every:
        if hp.recurrence_type != "basic":
            raise HParamError(
                "recurrence_supervised_every requires recurrence_type='basic'. "
                f"Received: recurrence_type={hp.recurrence_type!r}."
            )
        # An encoder that a decoder attends to has no loss of its own.
        kwargs["supervised_every"] = hp.recurrence_supervised_every if side.predicts else 0
    if hp.recompute_grad:
        kwargs["recompute_grad"] = True
    if hp.recurrence_backprop_steps is not None:
        kwargs["backprop_steps"] = hp.recurrence_backprop_steps
    if hp.recurrence_segments > 1:
        kwargs["num_segments"] = hp.recurrence_segments
    if hp.recurrence_fixed_point_loss_weight:
        kwargs["fixed_point_loss_weight"] = hp.recurrence_fixed_point_loss_weight
    return kwargs
