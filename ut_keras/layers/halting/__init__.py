"""Halting rules: they decide at which step a position halts."""
