"""The same random numbers again."""

import random

import numpy as np


def set_seed(seed):
    """Of numpy and of Keras, whose initializers and dropout draw their seeds from Python's numbers.

    `keras.utils.set_random_seed` has TensorFlow forget all kernels besides: it takes 0.1 s to make
    those of a model again.
    """
    random.seed(seed)
    np.random.seed(seed)
