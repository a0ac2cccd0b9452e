"""Attention in its kinds, who may attend, and what a cache keeps of it."""
