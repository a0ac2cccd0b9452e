"""In the manner of a translator's package: two corpora, read from the data folder itself."""

from . import first_corpus, second_corpus  # noqa: F401
