"""Imports TensorFlow without its log lines; `tensorflow_log` has the details.

A module that users import must import this module before it imports TensorFlow or Keras.
"""

from ut_keras.process import tensorflow_log

tensorflow_log.load()
