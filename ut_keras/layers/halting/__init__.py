"""Halting rules, which determine at which step a position halts."""
