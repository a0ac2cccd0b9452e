"""Attention in its kinds, who may attend, and what a cache keeps of it."""

from ut_keras.layers import members_before

__getattr__ = members_before(__name__)
