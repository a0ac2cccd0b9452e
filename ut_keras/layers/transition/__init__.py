"""Transition functions, the sublayers that follow the attention in a layer."""
