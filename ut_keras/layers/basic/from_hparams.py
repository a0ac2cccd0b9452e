"""Hparams to the arguments that many layers take: what the makers of the parts share."""

from typing import Any

import keras

from ut_keras.hparam import BasicHParams, HParamError, TransformerHParams

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def dtype_policy(hp: BasicHParams) -> str:
    """The Keras dtype policy of T2T's `activation_dtype`."""
    return POLICIES[hp.activation_dtype]


def with_global_policy(hp: BasicHParams) -> BasicHParams:
    """The hparams, with Keras' global dtype policy where they leave `activation_dtype` at float32.

    Raises:
        HParamError: if a model cannot have that policy.
    """
    policy = keras.config.dtype_policy().name
    if hp.activation_dtype != "float32" or policy == "float32":
        return hp
    for activation_dtype, name in POLICIES.items():
        if name == policy:
            return hp.override({"activation_dtype": activation_dtype})
    raise HParamError(
        f"Keras' global dtype policy must be {' or '.join(POLICIES.values())}. "
        f"Received: {policy}. "
        "float16 is not supported, because it requires loss scaling."
    )


def kernel_initializer(hp: BasicHParams) -> keras.initializers.Initializer:
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


def common(hp: BasicHParams) -> dict[str, Any]:
    """What every layer with a kernel takes."""
    return {"kernel_initializer": kernel_initializer(hp), "dtype": dtype_policy(hp)}


def processing(hp: BasicHParams) -> dict[str, Any]:
    """What every `PrePostProcess` takes besides its sequence."""
    return {
        "dropout_rate": hp.layer_prepostprocess_dropout,
        "dropout_broadcast_dims": axes(hp.layer_prepostprocess_dropout_broadcast_dims),
        "epsilon": hp.norm_epsilon,
        "norm_type": hp.norm_type,
    }


def removes_padding(hp: TransformerHParams, side: str) -> bool:
    """T2T removes padding only in encoders; a decoder's positions are all transformed."""
    return hp.use_pad_remover and side == "encoder"


def axes(comma_separated: str) -> tuple[int, ...]:
    """T2T's "0,1" as (0, 1)."""
    return tuple(int(axis) for axis in comma_separated.split(",") if axis.strip())
