"""Conversions from hparams to the arguments that many layers have in common."""

from typing import Any

import keras

from ut_keras.hparam_schema import BasicHParams, HParamError, TransformerHParams

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def dtype_policy(hp: BasicHParams) -> str:
    """Return the name of the Keras dtype policy for T2T's `activation_dtype`."""
    return POLICIES[hp.activation_dtype]


def with_global_policy(hp: BasicHParams) -> BasicHParams:
    """Return the hparams with Keras' global dtype policy.

    If `activation_dtype` is not its default "float32", the hparams remain unchanged.

    Raises:
        HParamError: if the global policy is neither float32 nor mixed_bfloat16.
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
    """Return the Keras initializer for T2T's `initializer` and `initializer_gain`.

    The unit scaling initializers multiply the variance by the gain.
    """
    gain = hp.initializer_gain
    if hp.initializer == "orthogonal":
        return keras.initializers.Orthogonal(gain)
    if hp.initializer == "uniform":
        return keras.initializers.RandomUniform(-0.1 * gain, 0.1 * gain)
    if hp.initializer == "xavier":  # as in T2T, "xavier" ignores the gain
        return keras.initializers.GlorotUniform()
    # TensorFlow 1 truncates the distribution "normal" at two standard deviations.
    distribution = "truncated_normal" if hp.initializer == "normal_unit_scaling" else "uniform"
    return keras.initializers.VarianceScaling(gain, "fan_avg", distribution)


def common(hp: BasicHParams) -> dict[str, Any]:
    """Return the arguments that every layer with a kernel has."""
    return {"kernel_initializer": kernel_initializer(hp), "dtype": dtype_policy(hp)}


def processing(hp: BasicHParams) -> dict[str, Any]:
    """Return the arguments that all `PrePostProcess` layers share."""
    return {
        "dropout_rate": hp.layer_prepostprocess_dropout,
        "dropout_broadcast_dims": axes(hp.layer_prepostprocess_dropout_broadcast_dims),
        "epsilon": hp.norm_epsilon,
        "norm_type": hp.norm_type,
    }


def removes_padding(hp: TransformerHParams, side: str) -> bool:
    """Return whether the layers of a side set padding to 0.

    T2T's `use_pad_remover` sets padding to 0 only in encoders.
    """
    return hp.use_pad_remover and side == "encoder"


def axes(comma_separated: str) -> tuple[int, ...]:
    """Convert T2T's comma-separated axes, such as "0,1", to a tuple of ints."""
    return tuple(int(axis) for axis in comma_separated.split(",") if axis.strip())
