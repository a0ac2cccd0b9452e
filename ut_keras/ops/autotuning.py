"""Turns off the autotuning of `tf.data`.

Autotuning runs in a thread. When an iterator is deleted, Python sometimes waits for this thread.
The wait can take as long as the iterator has existed, but at most a minute. Training would
therefore stop late after a signal (`findings/tensorflow_iterator_wait.sh`, TensorFlow 2.21.0).
"""

import tensorflow as tf


def disable(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the dataset without autotuning.

    With `num_parallel_calls=tf.data.AUTOTUNE`, TensorFlow then uses all cores, up to 16.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
