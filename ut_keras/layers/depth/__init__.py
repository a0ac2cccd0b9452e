"""Layers in a row, and recurrences over them."""
