"""The `tf.distribute` strategy of a run. There always is one: the train loop has one form."""

import functools

import tensorflow as tf


class DeviceError(ValueError):
    """Devices were asked for that are not there."""


def get_strategy(num_gpus=1, devices=None):
    """Returns a `OneDeviceStrategy`, or for several devices a `MirroredStrategy`.

    Args:
        num_gpus: int. How many GPUs to use; with 0, or 1 where there is none, the CPU.
        devices: list of str, such as ["CPU:0", "CPU:1"]. Overrides `num_gpus`.

    Raises:
        DeviceError: if there are fewer GPUs than asked for.
    """
    if devices is None:
        gpus = tf.config.list_logical_devices("GPU")
        if num_gpus > max(1, len(gpus)):
            raise DeviceError(
                f"worker_gpu must be at most the number of GPUs. Received: worker_gpu={num_gpus}, "
                f"and {len(gpus)} GPUs are here."
            )
        devices = [gpu.name for gpu in gpus[:num_gpus]] or ["CPU:0"]
    if len(devices) == 1:
        return tf.distribute.OneDeviceStrategy(devices[0])
    return _mirrored(tuple(devices))


@functools.cache
def _mirrored(devices):
    # Two strategies over the same devices would number their collective operations alike, and one
    # would receive what the other sends.
    return tf.distribute.MirroredStrategy(list(devices))
