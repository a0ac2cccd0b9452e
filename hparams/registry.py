"""The table of the named sets. A set is a registered function without arguments."""

from ut_keras import registry

SETS = registry.Registry("hparams set")
register = SETS.register
