"""Hparams to encoders and decoders: here and in `assemble_block` a model's structure is read."""

import functools

import keras

from ut_keras.hparam import HParamError, TransformerHParams, UniversalTransformerHParams
from ut_keras.layers import (
    act,
    dense,
    depthwise_attention,
    feed_forward,
    gate,
    gated_recurrence,
    gated_unit_recurrence,
    gated_units,
    mixed_depth,
    recurrence,
    sru,
    stack,
    timing_signal,
    transformer_block,
)
from ut_keras.models import assemble_block
from ut_keras.models.assemble_block import dtype_policy, kernel_initializer


def position_signal(hp, name):
    """What is added once, before the first layer: a layer, or None."""
    if hp.pos == "timing":
        return timing_signal.SinusoidPosition(name=name, dtype=dtype_policy(hp))
    if hp.pos == "emb":
        return timing_signal.LearnedPosition(
            hp.max_length, kernel_initializer(hp), name=name, dtype=dtype_policy(hp)
        )
    return None


def layered_stack(hp, side):
    """An encoder or decoder of the Transformer.

    Args:
        hp: `TransformerHParams`.
        side: "encoder", "decoder" or "language_model", which is a decoder without an encoder.
    Raises:
        HParamError: if the hparams are not those of a Transformer.
    """
    if not isinstance(hp, TransformerHParams):
        raise HParamError(
            "A Transformer needs a set of its own, such as transformer_base. "
            f"Received: {type(hp).__name__}."
        )
    specific = hp.num_encoder_layers if side == "encoder" else hp.num_decoder_layers
    block = assemble_block.block(hp, side, specific or hp.num_hidden_layers, "layer")
    depth = stack.LayeredDepth(block, name="depth", dtype=dtype_policy(hp))
    return _stack(hp, side, depth)


def recurrent_stack(hp, side):
    """An encoder or decoder of the Universal Transformer; `side` as in `layered_stack`.

    Raises:
        HParamError: if the hparams are not those of a Universal Transformer.
    """
    if not isinstance(hp, UniversalTransformerHParams):
        raise HParamError(
            "A Universal Transformer needs a set of its own, such as universal_transformer_tiny. "
            "Received: a set without recurrence_type."
        )
    depth = _RECURRENCES[hp.recurrence_type](hp, side)
    if hp.mix_with_transformer:
        depth = _mixed_depth(hp, side, depth)
    return _stack(hp, side, depth)


# What repeats, by `recurrence_type`.


def _basic_recurrence(hp, side):
    return recurrence.BasicRecurrence(**_recurrence_arguments(hp, side))


def _adaptive_recurrence(hp, side):
    arguments = _recurrence_arguments(hp, side)
    return act.AdaptiveComputationTime(
        arguments.pop("block"),
        arguments.pop("timing"),
        arguments.pop("num_steps"),
        epsilon=hp.act_epsilon,
        act_type=hp.act_type,
        halting_bias_init=hp.act_halting_bias_init,
        halted_state=hp.act_halted_state,
        force_final_remainder=hp.act_force_final_remainder,
        mask_padding=hp.act_mask_padding,
        act_loss_weight=hp.act_loss_weight,
        kernel_initializer=kernel_initializer(hp),
        **arguments,
    )


def _depthwise_recurrence(hp, side):
    return depthwise_attention.DepthwiseAttentionRecurrence(
        **_recurrence_arguments(hp, side),
        depth_embedding=hp.depth_embedding,
        per_element=hp.dwa_elements,
        kernel_initializer=kernel_initializer(hp),
    )


def _gated_recurrence(layer_class, hp, side):
    bias = hp.transform_bias_init
    coupled = hp.couple_carry_transform_gates
    return layer_class(
        **_recurrence_arguments(hp, side),
        transform_gate=_gate(hp, side, "transform", bias),
        carry_gate=None if coupled else _gate(hp, side, "carry", -bias),
        gates_inputs=hp.gates_inputs,
        preprocess_sequence=hp.layer_preprocess_sequence,
        **assemble_block.processing(hp),
    )


def _gru_recurrence(hp, side):
    return gated_unit_recurrence.GRURecurrence(
        **_unit_recurrence_arguments(hp, side),
        unit=gated_units.GRUUnit(**_unit_arguments(hp, side), name="gru"),
    )


def _lstm_recurrence(hp, side):
    return gated_unit_recurrence.LSTMRecurrence(
        **_unit_recurrence_arguments(hp, side),
        unit=gated_units.LSTMUnit(hp.lstm_forget_bias, **_unit_arguments(hp, side), name="lstm"),
        cell_as_output=hp.use_memory_as_final_state,
    )


_RECURRENCES = {
    "basic": _basic_recurrence,
    "act": _adaptive_recurrence,
    "highway": functools.partial(_gated_recurrence, gated_recurrence.HighwayRecurrence),
    "skip": functools.partial(_gated_recurrence, gated_recurrence.SkipRecurrence),
    "dwa": _depthwise_recurrence,
    "gru": _gru_recurrence,
    "lstm": _lstm_recurrence,
}


def _recurrence_arguments(hp, side):
    """What all recurrences take."""
    return {
        "block": assemble_block.block(hp, side, hp.num_inrecurrence_layers, "rec_layer"),
        "timing": _timing(hp),
        "num_steps": _num_steps(hp),
        "name": "depth",
        "dtype": dtype_policy(hp),
    }


def _unit_recurrence_arguments(hp, side):
    """What the recurrences with a unit take. They attend once a step, and count by themselves."""
    if hp.add_step_timing_signal:
        raise HParamError(
            f"recurrence_type={hp.recurrence_type!r} needs add_step_timing_signal=False "
            "(the unit counts the steps, T2T refuses it too). "
            "Received: add_step_timing_signal=True."
        )
    with_transition = hp.add_ffn_unit_to_the_transition_function
    transition = assemble_block.transition(hp, side) if with_transition else None
    layer = assemble_block.layer(hp, side, transition)
    return {
        **_recurrence_arguments(hp, side),
        "block": transformer_block.TransformerBlock(
            [layer], "unit_layer", name="block", dtype=dtype_policy(hp)
        ),
        "preprocess_sequence": hp.layer_preprocess_sequence,
        **assemble_block.processing(hp),
    }


def _unit_arguments(hp, side):
    return {
        "zero_at_padding": assemble_block.removes_padding(hp, side),
        "kernel_initializer": kernel_initializer(hp),
        "dtype": dtype_policy(hp),
    }


def _num_steps(hp):
    return hp.act_max_steps if hp.recurrence_type == "act" else hp.num_rec_steps


def _timing(hp):
    timing = timing_signal.StepTimingSignal(
        _num_steps(hp),
        position=hp.add_position_timing_signal,
        position_start_index=hp.position_start_index,
        step=hp.step_timing_signal_type if hp.add_step_timing_signal else None,
        combine=hp.add_or_concat_timing_signal,
        kernel_initializer=kernel_initializer(hp),
        name="timing",
        dtype=dtype_policy(hp),
    )
    if not hp.add_sru:
        return timing
    unit = assemble_block.simple_recurrent_unit(hp)
    return sru.TimingAndSRU(timing, unit, name="signals", dtype=dtype_policy(hp))


def _gate(hp, side, name, bias):
    """A gate of highway and skip, by `gate_ffn_layer`."""
    common = {
        "kernel_initializer": kernel_initializer(hp),
        "name": "map",
        "dtype": dtype_policy(hp),
    }
    bias_initializer = keras.initializers.Constant(bias)

    def make_dense():
        return dense.Dense(hp.hidden_size, bias_initializer=bias_initializer, **common)

    def make_dropconnect():
        return gate.DropConnectDense(
            hp.hidden_size,
            hp.dropconnect_dropout,
            bias_initializer=bias_initializer,
            **common,
        )

    def make_feed_forward():  # T2T starts its biases at 0
        return feed_forward.FeedForward(
            hp.filter_size, hp.hidden_size, hp.relu_dropout, zero_at_padding=False, **common
        )

    makers = {
        "dense": make_dense,
        "dense_dropconnect": make_dropconnect,
        "dense_relu_dense": make_feed_forward,
    }
    # A carry gate of its own must not be 0 at padding: nothing would be left of the state.
    zero_at_padding = assemble_block.removes_padding(hp, side) and hp.couple_carry_transform_gates
    return gate.Gate(
        makers[hp.gate_ffn_layer](),
        zero_at_padding=zero_at_padding,
        name=name,
        dtype=dtype_policy(hp),
    )


def _mixed_depth(hp, side, inner):
    """The recurrence between ordinary layers, by `mix_with_transformer`."""
    inner.name = "recurrence"

    def layers_at(place):
        if f"{place}_ut" not in hp.mix_with_transformer:
            return None
        block = assemble_block.block(hp, side, hp.num_mixedin_layers, f"{place}_ut_layer")
        return stack.LayeredDepth(block, name=place, dtype=dtype_policy(hp))

    return mixed_depth.MixedDepth(
        inner,
        layers_at("before"),
        layers_at("after"),
        position=hp.add_position_timing_signal,
        name="depth",
        dtype=dtype_policy(hp),
    )


def _stack(hp, side, depth):
    return stack.Stack(
        depth,
        hp.layer_preprocess_sequence,
        **assemble_block.processing(hp),
        name="encoder" if side == "encoder" else "decoder",
        dtype=dtype_policy(hp),
    )
