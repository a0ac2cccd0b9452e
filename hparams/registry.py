"""The tables of the named sets (functions without arguments) and of the ranges to search."""

from ut_keras import registry

SETS = registry.Registry("hparams set")
RANGES = registry.Registry("hparams range")
register = SETS.register
register_range = RANGES.register
