"""A package like a poetry trainer. Its folder has the name of a command of ut_keras, `trainer`."""

from . import verse  # noqa: F401
