"""TensorFlow operations in faster, safer or more portable forms."""
