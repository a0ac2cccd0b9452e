"""Generates outputs: search, sampling and scoring, with or without a cache."""
