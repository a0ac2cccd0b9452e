"""Halting rules. A rule decides after which step a position halts."""
