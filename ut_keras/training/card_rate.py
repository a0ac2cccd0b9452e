"""The rate of a GPU, and the operations of updates that run on it.

    rate = card_rate.find(model, strategy)       # None if the GPU or the model is unknown
    rate.peak                                    the operations per second of all GPUs, at most
    rate.flops(batch)                            the operations of an update

The progress line shows the operations per second of training as a share of the peak. The share is
also known as "model FLOPs utilization". It counts the matrix products of the model at all positions
of a batch, including padding (see `models.flops`). Matrix products without other operations reach
60 to 90 % of the peak.
"""

import functools
import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf


class Peak(NamedTuple):
    """The largest rates of dense matrix products, in 10^12 operations per second.

    Fields:
        bfloat16: float, products of bfloat16 with sums in float32. None if the GPU has no units for
            these products.
        tf32: float, the same for TensorFloat-32, which TensorFlow uses for float32 by default.
        float32: float, products of float32 without TensorFloat-32.
    """

    bfloat16: float | None
    tf32: float | None
    float32: float


# The keys are regular expressions for the names that the driver reports. The rates are those
# of the data sheets "NVIDIA … Tensor Core GPU" for the H100, H200, A100, L4, T4 and V100. The
# rates of the RTX 4090 are those of the white paper "NVIDIA Ada GPU Architecture". Most of the data
# sheets state rates with sparsity. The rates here are half of them.
#
# We entered the rates from memory and compared most of them with public lists. We could not verify
# them against the data sheets. The rates of H100 NVL and H200 NVL were not compared at all.
_PEAKS = {
    r"H100 80GB HBM3": Peak(989.4, 494.7, 66.9),  # H100 SXM
    r"H100 PCIe": Peak(756.0, 378.0, 51.0),
    r"H100 NVL": Peak(835.5, 417.5, 60.0),
    r"H200": Peak(989.4, 494.7, 66.9),  # H200 SXM
    r"H200 NVL": Peak(835.5, 417.5, 60.0),
    r"A100([- ]SXM4|-PCIE)?([- ]\d+GB)?( PCIe)?": Peak(312.0, 156.0, 19.5),
    r"L4": Peak(121.0, 60.0, 30.3),
    r"T4": Peak(None, None, 8.1),
    r"V100-SXM2-\d+GB": Peak(None, None, 15.7),
    r"V100-PCIE-\d+GB": Peak(None, None, 14.0),
    r"GeForce RTX 4090": Peak(165.2, 82.6, 82.6),
}


class CardRate(NamedTuple):
    """The peak rate of the GPUs of this process, and the operations of an update."""

    peak: float  # operations per second
    # Function from the batch of all GPUs of this process to the `models.flops.Flops` of its update.
    flops: Callable[[Any], Any]


def peak_of(device_name: str, dtype: str, allows_tf32: bool = True) -> float | None:
    """Return the largest number of operations per second of a GPU, or None.

    The result is None if the number is unknown.

    Args:
        device_name: str, the name that the driver reports, such as "NVIDIA H200".
        dtype: str, the type of the factors of products.
        allows_tf32: bool. Whether products of float32 may use TensorFloat-32.
    """
    name = re.sub(r"^(NVIDIA|Tesla) ", "", device_name)
    for pattern, peak in _PEAKS.items():
        if re.fullmatch(pattern, name):
            float32_rate = peak.tf32 if allows_tf32 and peak.tf32 else peak.float32
            rate = {"bfloat16": peak.bfloat16, "float32": float32_rate}.get(dtype)
            return None if rate is None else 1e12 * rate
    return None


def find(model: keras.Model, strategy: tf.distribute.Strategy) -> CardRate | None:
    """Return the `CardRate` of a run, or None if it is unknown.

    It is unknown on CPUs and TPUs, for GPUs that are not in the table of this module, and for
    models without `count_flops`.
    """
    count = getattr(model, "count_flops", None)
    devices = [tf.DeviceSpec.from_string(name) for name in strategy.extended.worker_devices]
    if count is None or any(device.device_type != "GPU" for device in devices):
        return None
    allows_tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    gpus = tf.config.get_visible_devices("GPU")
    if len(gpus) < len(devices):
        return None
    dtype = model.dtype_policy.compute_dtype
    peak = 0.0
    for gpu in gpus[: len(devices)]:
        name = tf.config.experimental.get_device_details(gpu).get("device_name", "")
        gpu_peak = peak_of(name, dtype, allows_tf32)
        if gpu_peak is None:
            return None
        peak += gpu_peak
    return CardRate(peak, functools.partial(_flops_of_batch, strategy, count))


def _flops_of_batch(strategy, count, batch):
    """Return the `models.flops.Flops` of a batch's update.

    The number is for all GPUs of this process.

    Args:
        strategy: the `tf.distribute.Strategy` of the run.
        count: function (number of examples, length of the inputs, length of the targets) -> `Flops`
            of a replica.
        batch: (features, targets) or (features, targets, weights).
    """
    features, targets, *_ = batch
    inputs = features.get("inputs")
    shapes = [
        [tuple(part.shape) for part in strategy.experimental_local_results(ids)]
        for ids in ((targets,) if inputs is None else (targets, inputs))
    ]
    counts = [
        count(target[0], source[0][1] if source else 0, target[1])
        for target, *source in zip(*shapes, strict=True)
    ]
    return functools.reduce(operator.add, counts)
