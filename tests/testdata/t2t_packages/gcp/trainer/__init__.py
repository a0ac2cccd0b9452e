"""In the manner of a poetry trainer: the folder is called as our own command."""

from . import verse  # noqa: F401
