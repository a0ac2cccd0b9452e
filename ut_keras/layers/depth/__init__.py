"""Transformer layers, stacks of them, and recurrences in depth."""
