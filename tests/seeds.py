"""Seeds for reproducible random numbers in tests."""

import random

import numpy as np


def set_seed(seed):
    """Set the seeds of numpy and Keras.

    Keras' initializers and dropout sample their seeds from Python's random numbers.
    `keras.utils.set_random_seed` is not used, because it also makes TensorFlow discard all kernels.
    Creating the kernels of a model again takes 0.1 s.
    """
    random.seed(seed)
    np.random.seed(seed)
