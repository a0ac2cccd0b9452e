"""Transition functions: the sublayer of a layer that follows the attention."""
