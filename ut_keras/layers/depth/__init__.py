"""Transformer layers, stacks of Transformer layers, and recurrences in depth."""
