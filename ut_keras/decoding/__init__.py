"""Generates outputs: search, sampling and scoring for a model, with or without a cache."""
