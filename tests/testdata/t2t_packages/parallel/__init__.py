"""A package like those for translation. It reads two corpora from the data folder."""

from . import first_corpus, second_corpus  # noqa: F401
