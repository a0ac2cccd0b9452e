"""Report which kind of device TensorFlow uses."""

import tensorflow as tf


def has_gpu() -> bool:
    """Return whether TensorFlow sees a GPU.

    Functions that have one implementation for GPUs and one for CPUs call this function while
    TensorFlow traces them. The call does not start TensorFlow's runtime.
    """
    return bool(tf.config.get_visible_devices("GPU"))
