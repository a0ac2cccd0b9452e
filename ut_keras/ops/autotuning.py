"""Turns off the autotuning of `tf.data`.

Autotuning runs in a thread. If an iterator is deleted, it often waits for this thread, for as long
as the iterator has existed, but at most a minute. Python waits, too, so training would stop late
after a signal (`findings/tensorflow_iterator_wait.sh`, TensorFlow 2.21.0).
"""

import tensorflow as tf


def disable(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the dataset without autotuning.

    For `num_parallel_calls=tf.data.AUTOTUNE`, TensorFlow then uses all cores, but at most 16.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
