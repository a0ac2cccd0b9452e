"""Computes outputs from the folder of a run.

Python programs, exports, commands and evaluations use these modules.
"""
