"""Importing this module imports TensorFlow without its log lines, see `tensorflow_log`.

A module that users import, and that imports TensorFlow or Keras, imports this module first.
"""

from ut_keras.process import tensorflow_log

tensorflow_log.load()
