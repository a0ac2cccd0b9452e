"""Computes outputs from the folder of a run, for Python, exports, commands and evaluations."""
