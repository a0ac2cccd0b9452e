"""Faster, safer or portable forms of TensorFlow operations."""
