"""Hparams to encoders and decoders. The parts make themselves: each registers beside its layer."""

import keras

from ut_keras import parts
from ut_keras.hparam import (
    BasicHParams,
    HParamError,
    TransformerHParams,
    UniversalTransformerHParams,
)
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.depth import mixed_depth, stack

parts.load_all()


def with_global_policy(hp: BasicHParams) -> BasicHParams:
    """The hparams, with Keras' global dtype policy where they leave `activation_dtype` at float32.

    Raises:
        HParamError: if a model cannot have that policy.
    """
    policy = keras.config.dtype_policy().name
    if hp.activation_dtype != "float32" or policy == "float32":
        return hp
    for activation_dtype, name in from_hparams.POLICIES.items():
        if name == policy:
            return hp.override({"activation_dtype": activation_dtype})
    raise HParamError(
        f"Keras' global dtype policy must be {' or '.join(from_hparams.POLICIES.values())} "
        "(float16 would need loss scaling, bfloat16 does not). "
        f"Received: {policy}."
    )


def layered_stack(hp: TransformerHParams, side: parts.Side | str) -> stack.Stack:
    """An encoder or decoder of the Transformer, by its `parts.Side`."""
    specific = hp.num_encoder_layers if side == "encoder" else hp.num_decoder_layers
    block = stack.make_block(hp, side, specific or hp.num_hidden_layers, "layer")
    depth = stack.LayeredDepth(block, name="depth", dtype=from_hparams.dtype_policy(hp))
    return _stack(hp, side, depth)


def recurrent_stack(hp: UniversalTransformerHParams, side: parts.Side | str) -> stack.Stack:
    """An encoder or decoder of the Universal Transformer."""
    side = side if isinstance(side, parts.Side) else parts.Side(side)
    depth = parts.recurrences.get(hp.recurrence_type)(hp, side)
    if hp.mix_with_transformer:
        depth = mixed_depth.make(hp, side, depth)
    return _stack(hp, side, depth)


def _stack(hp, side, depth):
    return stack.Stack(
        depth,
        hp.layer_preprocess_sequence,
        **from_hparams.processing(hp),
        name="encoder" if side == "encoder" else "decoder",
        dtype=from_hparams.dtype_policy(hp),
    )
