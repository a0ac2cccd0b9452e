"""Hparams to the block that a stack is made of: attention, transition, what is around them."""

import keras

from ut_keras.hparam import HParamError
from ut_keras.layers import (
    attention,
    conv_feed_forward,
    feed_forward,
    local_attention,
    parameter_attention,
    relative_attention,
    separable_convolution,
    sru,
    transformer_block,
    transformer_layer,
)

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def dtype_policy(hp):
    """The Keras dtype policy of T2T's `activation_dtype`."""
    return _POLICIES[hp.activation_dtype]


def with_global_policy(hp):
    """The hparams, with Keras' global dtype policy where they leave `activation_dtype` at float32.

    Raises:
        HParamError: if a model cannot have that policy.
    """
    policy = keras.config.dtype_policy().name
    if hp.activation_dtype != "float32" or policy == "float32":
        return hp
    for activation_dtype, name in _POLICIES.items():
        if name == policy:
            return hp.override({"activation_dtype": activation_dtype})
    raise HParamError(
        f"Keras' global dtype policy must be {' or '.join(_POLICIES.values())} (float16 would need "
        f"loss scaling, bfloat16 does not). Received: {policy}."
    )


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


def block(hp, side, num_layers, prefix):
    """Layers in a row.

    Args:
        hp: `TransformerHParams`.
        side: "encoder", "decoder" or "language_model", which is a decoder without an encoder.
        num_layers: int.
        prefix: str. Layer i is called `<prefix>_<i>`.
    """
    layers = [layer(hp, side, transition(hp, side)) for _ in range(num_layers)]
    return transformer_block.TransformerBlock(layers, prefix, name="block", dtype=dtype_policy(hp))


def layer(hp, side, transition_layer):
    """One layer; `transition_layer` may be None, which leaves attention alone."""
    return transformer_layer.TransformerLayer(
        _SELF_ATTENTIONS[hp.self_attention_type](hp),
        transition_layer,
        _attention(hp) if side == "decoder" else None,
        hp.layer_preprocess_sequence,
        hp.layer_postprocess_sequence,
        **processing(hp),
        dtype=dtype_policy(hp),
    )


# Attention, by `self_attention_type`; the encoder's output is attended to by the plain one.


def _attention(hp, layer_class=attention.MultiHeadAttention, **arguments):
    arguments = {"hard_attention_k": hp.hard_attention_k, **arguments}
    return layer_class(
        hp.num_heads,
        hp.hidden_size,
        hp.attention_key_channels or None,
        hp.attention_value_channels or None,
        dropout_rate=hp.attention_dropout,
        dropout_broadcast_dims=_axes(hp.attention_dropout_broadcast_dims),
        kernel_initializer=kernel_initializer(hp),
        name="multihead_attention",
        dtype=dtype_policy(hp),
        **arguments,
    )


def _relative_attention(hp):
    return _attention(
        hp,
        relative_attention.RelativeAttention,
        max_relative_position=hp.max_relative_position,
    )


def _causal_relative_attention(hp):
    return _attention(
        hp,
        relative_attention.CausalRelativeAttention,
        max_relative_position=hp.max_relative_position,
        heads_share_relative_embedding=hp.heads_share_relative_embedding,
        add_relative_to_values=hp.add_relative_to_values,
        mask_future=hp.relative_mask_future,
        hard_attention_k=0,  # as in T2T: hard is the attention to the encoder only
    )


def _local_attention(hp, **window):
    return _attention(
        hp,
        local_attention.LocalAttention,
        block_length=hp.block_length,
        hard_attention_k=0,  # as in T2T
        **window,
    )


_SELF_ATTENTIONS = {
    "dot_product": _attention,
    "dot_product_relative": _relative_attention,
    "dot_product_relative_v2": _causal_relative_attention,
    "local_mask_right": lambda hp: _local_attention(hp, left=hp.block_length, causal=True),
    "local_unmasked": lambda hp: _local_attention(hp, left=hp.block_length, right=hp.block_length),
}


# Transitions, by `transformer_ffn_type` and `ffn_layer`.


def transition(hp, side):
    """The transition function of a layer."""
    if getattr(hp, "transformer_ffn_type", "fc") == "sepconv":
        return _separable_convolution(hp, side)
    return _TRANSITIONS[hp.ffn_layer](hp, side)


def _separable_convolution(hp, side):
    return separable_convolution.SeparableConvFeedForward(
        hp.filter_size,
        hp.hidden_size,
        causal=side != "encoder",
        dropout_rate=hp.relu_dropout,
        kernel_initializer=kernel_initializer(hp),
        name="sepconv_relu_sepconv",
        dtype=dtype_policy(hp),
    )


def _feed_forward(hp, side):
    return feed_forward.FeedForward(
        hp.filter_size,
        hp.hidden_size,
        hp.relu_dropout,
        _axes(hp.relu_dropout_broadcast_dims),
        zero_at_padding=removes_padding(hp, side),
        kernel_initializer=kernel_initializer(hp),
        name="dense_relu_dense",
        dtype=dtype_policy(hp),
    )


def _conv_feed_forward(hp, side):
    return conv_feed_forward.ConvFeedForward(
        hp.filter_size,
        hp.hidden_size,
        hp.conv_first_kernel,
        causal=side != "encoder",
        dropout_rate=hp.relu_dropout,
        kernel_initializer=kernel_initializer(hp),
        name="conv_relu_conv",
        dtype=dtype_policy(hp),
    )


def _parameter_attention(hp, side):
    del side
    return parameter_attention.ParameterAttention(
        hp.num_heads,
        hp.filter_size,
        hp.hidden_size,
        hp.parameter_attention_key_channels or None,
        hp.parameter_attention_value_channels or None,
        dropout_rate=hp.attention_dropout,
        kernel_initializer=kernel_initializer(hp),
        name="parameter_attention",
        dtype=dtype_policy(hp),
    )


_TRANSITIONS = {
    "dense_relu_dense": _feed_forward,
    "conv_hidden_relu": _feed_forward,  # its old name
    "conv_relu_conv": _conv_feed_forward,
    "parameter_attention": _parameter_attention,
    "sru": lambda hp, side: simple_recurrent_unit(hp),
}


def removes_padding(hp, side):
    """T2T removes padding only in encoders; a decoder's positions are all transformed."""
    return hp.use_pad_remover and side == "encoder"


def simple_recurrent_unit(hp):
    """The SRU, as a transition and behind the signals of each step."""
    return sru.SRU(kernel_initializer=kernel_initializer(hp), name="sru", dtype=dtype_policy(hp))


def processing(hp):
    """What every `PrePostProcess` takes besides its sequence."""
    return {
        "dropout_rate": hp.layer_prepostprocess_dropout,
        "dropout_broadcast_dims": _axes(hp.layer_prepostprocess_dropout_broadcast_dims),
        "epsilon": hp.norm_epsilon,
    }


def _axes(comma_separated):
    """T2T's "0,1" as (0, 1)."""
    return tuple(int(axis) for axis in comma_separated.split(",") if axis.strip())
