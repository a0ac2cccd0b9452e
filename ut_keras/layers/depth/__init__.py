"""Layers in a row, and recurrences over them."""

from ut_keras.layers import members_before

__getattr__ = members_before(__name__)
