"""The Transformer and the (Adaptive) Universal Transformer for TensorFlow and Keras.

Importing this package loads neither TensorFlow nor Keras: its parts do when they are used.
"""

__version__ = "0.1.0"
