"""Text to ids and back: tokenizers and vocabularies, in Python and in a graph."""
