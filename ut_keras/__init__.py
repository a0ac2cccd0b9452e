"""The Transformer and the (Adaptive) Universal Transformer for TensorFlow and Keras.

Importing this package loads neither TensorFlow nor Keras: its parts do when they are used, and
then TensorFlow writes no log lines, unless TF_CPP_MIN_LOG_LEVEL asks for them.
"""

from ut_keras import tensorflow_log

tensorflow_log.set_default()

__version__ = "0.1.0"


def load(output_dir, checkpoint_path=None, problem=None, data_dir=None):
    """Returns what a run has trained, ready for texts; see `saved_run.load`."""
    from ut_keras import saved_run

    return saved_run.load(output_dir, checkpoint_path, problem, data_dir)
