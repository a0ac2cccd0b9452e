"""Multi-head attention, its variants, attention masks, and the decoding cache."""
