"""TensorFlow operations put otherwise."""
