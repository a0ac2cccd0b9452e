"""Tells which kind of device TensorFlow uses, for code with one form for each kind."""

import tensorflow as tf


def has_gpu() -> bool:
    """Return whether TensorFlow sees a GPU.

    Functions with one form for GPUs and one for CPUs call this function when they are traced. It
    does not start TensorFlow's runtime.
    """
    return bool(tf.config.get_visible_devices("GPU"))
