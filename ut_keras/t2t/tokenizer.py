"""T2T's data_generators.tokenizer, which is ours."""

from ut_keras.data.tokenizer import decode, encode

__all__ = ["decode", "encode"]
