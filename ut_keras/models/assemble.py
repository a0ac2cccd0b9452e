"""Hparams to layers: the only place where a model's structure is read off them."""

import keras

from ut_keras.hparam import HParamError, UniversalTransformerHParams
from ut_keras.layers import (
    act,
    attention,
    feed_forward,
    recurrence,
    separable_convolution,
    stack,
    timing_signal,
    transformer_block,
    transformer_layer,
)


def dtype_policy(hp):
    """The Keras dtype policy of T2T's `activation_dtype`."""
    return {"float32": "float32", "bfloat16": "mixed_bfloat16"}[hp.activation_dtype]


def kernel_initializer(hp):
    """T2T's `initializer`; the gain is a factor of the variance where that follows the shape."""
    gain = hp.initializer_gain
    if hp.initializer == "orthogonal":
        return keras.initializers.Orthogonal(gain)
    if hp.initializer == "uniform":
        return keras.initializers.RandomUniform(-0.1 * gain, 0.1 * gain)
    if hp.initializer == "xavier":  # without the gain, in T2T too
        return keras.initializers.GlorotUniform()
    # TensorFlow 1 cuts a "normal" off at two standard deviations.
    distribution = "truncated_normal" if hp.initializer == "normal_unit_scaling" else "uniform"
    return keras.initializers.VarianceScaling(gain, "fan_avg", distribution)


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
    """
    specific = hp.num_encoder_layers if side == "encoder" else hp.num_decoder_layers
    block = _block(hp, side, specific or hp.num_hidden_layers, "layer")
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
    block = _block(hp, side, hp.num_inrecurrence_layers, "rec_layer")
    steps = hp.act_max_steps if hp.recurrence_type == "act" else hp.num_rec_steps
    timing = timing_signal.StepTimingSignal(
        steps,
        position=hp.add_position_timing_signal,
        position_start_index=hp.position_start_index,
        step=hp.step_timing_signal_type if hp.add_step_timing_signal else None,
        combine=hp.add_or_concat_timing_signal,
        kernel_initializer=kernel_initializer(hp),
        name="timing",
        dtype=dtype_policy(hp),
    )
    if hp.recurrence_type == "act":
        depth = act.AdaptiveComputationTime(
            block,
            timing,
            steps,
            epsilon=hp.act_epsilon,
            act_type=hp.act_type,
            halting_bias_init=hp.act_halting_bias_init,
            halted_state=hp.act_halted_state,
            force_final_remainder=hp.act_force_final_remainder,
            mask_padding=hp.act_mask_padding,
            kernel_initializer=kernel_initializer(hp),
            name="depth",
            dtype=dtype_policy(hp),
        )
    else:
        depth = recurrence.BasicRecurrence(
            block, timing, steps, name="depth", dtype=dtype_policy(hp)
        )
    return _stack(hp, side, depth)


def _stack(hp, side, depth):
    return stack.Stack(
        depth,
        hp.layer_preprocess_sequence,
        **_processing(hp),
        name="encoder" if side == "encoder" else "decoder",
        dtype=dtype_policy(hp),
    )


def _block(hp, side, num_layers, prefix):
    layers = [_layer(hp, side) for _ in range(num_layers)]
    return transformer_block.TransformerBlock(
        layers, prefix, name="block", dtype=dtype_policy(hp)
    )


def _layer(hp, side):
    return transformer_layer.TransformerLayer(
        _attention(hp),
        _transition(hp, side),
        _attention(hp) if side == "decoder" else None,
        hp.layer_preprocess_sequence,
        hp.layer_postprocess_sequence,
        **_processing(hp),
        dtype=dtype_policy(hp),
    )


def _attention(hp):
    return attention.MultiHeadAttention(
        hp.num_heads,
        hp.hidden_size,
        hp.attention_key_channels or None,
        hp.attention_value_channels or None,
        dropout_rate=hp.attention_dropout,
        dropout_broadcast_dims=_axes(hp.attention_dropout_broadcast_dims),
        kernel_initializer=kernel_initializer(hp),
        name="multihead_attention",
        dtype=dtype_policy(hp),
    )


def _transition(hp, side):
    if getattr(hp, "transformer_ffn_type", "fc") == "sepconv":
        return separable_convolution.SeparableConvFeedForward(
            hp.filter_size,
            hp.hidden_size,
            causal=side != "encoder",
            dropout_rate=hp.relu_dropout,
            kernel_initializer=kernel_initializer(hp),
            name="sepconv_relu_sepconv",
            dtype=dtype_policy(hp),
        )
    return feed_forward.FeedForward(
        hp.filter_size,
        hp.hidden_size,
        hp.relu_dropout,
        _axes(hp.relu_dropout_broadcast_dims),
        # T2T removes padding only in encoders; a decoder's positions are all transformed.
        zero_at_padding=hp.use_pad_remover and side == "encoder",
        kernel_initializer=kernel_initializer(hp),
        name="dense_relu_dense",
        dtype=dtype_policy(hp),
    )


def _processing(hp):
    return {
        "dropout_rate": hp.layer_prepostprocess_dropout,
        "dropout_broadcast_dims": _axes(hp.layer_prepostprocess_dropout_broadcast_dims),
        "epsilon": hp.norm_epsilon,
    }


def _axes(comma_separated):
    """T2T's "0,1" as (0, 1)."""
    return tuple(int(axis) for axis in comma_separated.split(",") if axis.strip())
