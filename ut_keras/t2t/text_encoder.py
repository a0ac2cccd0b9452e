"""Stand-in for data_generators.text_encoder: encoders with T2T's arguments.

`to_built_in` converts such an encoder to a plain encoder of ut_keras, which a run can store.

References: tensor2tensor/data_generators/text_encoder.py.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ut_keras.data import contract
from ut_keras.errors import DataError
from ut_keras.text import text_encoder, text_encoder_base

# Method of T2T's token and subword encoders -> methods that it calls in T2T and not in ut_keras.
_NOT_CALLED = {
    "__init__": """_init_vocab _init_vocab_from_file _init_vocab_from_list
        _init_alphabet_from_tokens _init_subtokens_from_list _load_from_file
        _load_from_file_object""",
    "encode": """_escaped_token_to_subtoken_ids _escaped_token_to_subtoken_strings
        _token_to_subtoken_ids _tokens_to_subtoken_ids""",
    "decode": "_safe_id_to_token _subtoken_id_to_subtoken_string _subtoken_ids_to_tokens",
}
PAD, EOS = RESERVED_TOKENS = list(text_encoder.RESERVED_TOKENS)
NUM_RESERVED_TOKENS = text_encoder.NUM_RESERVED_IDS
PAD_ID, EOS_ID = text_encoder.PAD, text_encoder.EOS
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


def to_unicode(s: str | bytes, ignore_errors: bool = False) -> str:
    """Return a str unchanged, and decode bytes."""
    return s.decode("utf-8", "ignore" if ignore_errors else "strict") if isinstance(s, bytes) else s


native_to_unicode = unicode_to_native = to_unicode_utf8 = to_unicode
to_unicode_ignore_errors = functools.partial(to_unicode, ignore_errors=True)


def is_unicode(text: Any) -> bool:
    return isinstance(text, str)


def strip_ids(ids: Iterable[int], ids_to_strip: Sequence[int]) -> list[int]:
    """Return the ids without trailing ids that are in `ids_to_strip`."""
    ids = list(ids)
    while ids and ids[-1] in ids_to_strip:
        ids.pop()
    return ids


class _T2TDecoding(text_encoder.TextEncoder):
    """Adds T2T's arguments to the `decode` of a built-in encoder."""

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        ids = [int(i) for i in ids]
        return super().decode(strip_ids(ids, (PAD_ID, EOS_ID)) if strip_extraneous else ids)

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        return [super(_T2TDecoding, self).decode([int(i)]) for i in ids]

    num_reserved_ids = NUM_RESERVED_TOKENS


class _NoSizeError(DataError, NotImplementedError):
    """A package's encoder has no `vocab_size`, which training requires."""


class TextEncoder(text_encoder.TextEncoder):
    """Encodes numbers separated by spaces. Packages may derive from this class."""

    def __init__(self, num_reserved_ids: int = NUM_RESERVED_TOKENS) -> None:
        self._num_reserved_ids = num_reserved_ids

    @property
    def num_reserved_ids(self) -> int:
        return self._num_reserved_ids

    @property
    def vocab_size(self) -> int:
        raise _NoSizeError(
            f"{type(self).__name__} must define vocab_size. Received: a class without it."
        )

    def encode(self, s: str) -> list[int]:
        # The encoder in an exported model accepts the same numbers. Python's `int` accepts more,
        # such as "1_0" and "\u0663".
        for word in s.split():
            if not _NUMBER.fullmatch(word):
                raise DataError(
                    "Numbers must have 1 to 9 digits and be separated by spaces. "
                    f"Received: {word[:80]!r}."
                )
        return [int(word) + self._num_reserved_ids for word in s.split()]

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        ids = strip_ids(ids, (PAD_ID, EOS_ID)) if strip_extraneous else ids
        return " ".join(self.decode_list(ids))

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        reserved = self._num_reserved_ids
        return [RESERVED_TOKENS[i] if i < reserved else str(i - reserved) for i in ids]


class RealEncoder:
    """Encodes floats that are separated by spaces, for a feature that no model reads."""

    vocab_size = None

    def encode(self, s: str) -> list[float]:
        return [float(word) for word in s.split()]

    def decode(self, ids: Iterable[float], strip_extraneous: bool = False) -> str:
        return " ".join(map(str, ids))


class ByteTextEncoder(_T2TDecoding, text_encoder.ByteTextEncoder):
    def __init__(self, num_reserved_ids: int = NUM_RESERVED_TOKENS) -> None:
        if num_reserved_ids != NUM_RESERVED_TOKENS:
            raise ValueError(f"num_reserved_ids must be 2. Received: {num_reserved_ids}.")
        super().__init__()


class ClassLabelEncoder(_T2TDecoding, text_encoder.ClassLabelEncoder):
    def __init__(
        self, class_labels: Iterable[str] | None = None, class_labels_fname: str | None = None
    ) -> None:
        super().__init__(labels=class_labels, filename=class_labels_fname)

    # This method returns an int, as in T2T. An encoder of ut_keras, such as the result of
    # `to_built_in`, returns a list with one id.
    def encode(self, s: str) -> int:  # type: ignore[override]
        return super().encode(s)[0]

    def decode(self, ids: Any, strip_extraneous: bool = False) -> str:
        """Decode an int, or a list or array of one int. No class id is reserved."""
        return super().decode(np.ravel(ids).tolist())


class TokenTextEncoder(_T2TDecoding, text_encoder.TokenTextEncoder):
    def __init__(
        self,
        vocab_filename: str | None,
        reverse: bool = False,
        vocab_list: Iterable[str] | None = None,
        replace_oov: str | None = None,
        num_reserved_ids: int = NUM_RESERVED_TOKENS,
    ) -> None:
        if reverse or num_reserved_ids != NUM_RESERVED_TOKENS:
            raise ValueError(
                "reverse must be False and num_reserved_ids must be 2. "
                f"Received: reverse={reverse}, num_reserved_ids={num_reserved_ids}."
            )
        filename = vocab_filename if vocab_list is None else None
        super().__init__(filename=filename, tokens=vocab_list, replace_oov=replace_oov)


class SubwordTextEncoder(_T2TDecoding, text_encoder.SubwordTextEncoder):
    @classmethod
    def build_from_generator(
        cls,
        generator: Iterable[str],
        target_size: int,
        max_subtoken_length: int | None = None,
        reserved_tokens: Sequence[str] | None = None,
    ) -> "SubwordTextEncoder":
        """Build a vocabulary.

        Raises:
            ValueError: if `reserved_tokens` does not begin with T2T's reserved tokens.
        """
        reserved = RESERVED_TOKENS if reserved_tokens is None else list(reserved_tokens)
        if reserved[:NUM_RESERVED_TOKENS] != RESERVED_TOKENS:
            raise ValueError(
                f"reserved_tokens must begin with {RESERVED_TOKENS}. Received: {reserved}."
            )
        return super().build_from_generator(generator, target_size, max_subtoken_length, reserved)

    @property
    def all_subtoken_strings(self) -> set[str]:
        return set(self.subtokens)


def check_overrides(encoder: Any) -> None:
    """Check that an encoder overrides no method that only T2T's encoders call.

    A method is not checked if the encoder also overrides the method that calls it in T2T.

    Raises:
        DataError: if an encoder that derives from this module's classes overrides such a method.
    """
    if not isinstance(encoder, TokenTextEncoder | SubwordTextEncoder):
        return
    for caller, words in _NOT_CALLED.items():
        names = words.split()
        if caller == "decode" and isinstance(encoder, TokenTextEncoder):
            names.append("decode_list")
        if text_encoder_base.is_overridden(encoder, caller):
            continue
        for name in names:
            if text_encoder_base.is_overridden(encoder, name):
                raise DataError(
                    f"{type(encoder).__name__} must override {caller} and not {name}. "
                    f"Received: an override of {name}, which {caller} does not call in ut_keras."
                )


def to_built_in(encoder: Any, vocab_size: int | None = None) -> text_encoder.TextEncoder:
    """Return a package's encoder as an encoder of ut_keras.

    Args:
        encoder: an encoder of this module, or an object with T2T's methods.
        vocab_size: int. Required for a `TextEncoder`, which does not define its `vocab_size`.

    Raises:
        DataError: see `check_overrides`.
    """
    check_overrides(encoder)
    if type(encoder) is TextEncoder:
        if vocab_size and encoder.num_reserved_ids == NUM_RESERVED_TOKENS:
            return text_encoder.IntegerTextEncoder(vocab_size)
        return PackageEncoder(encoder, vocab_size)
    for cls in type(encoder).__mro__[1:]:
        if type(encoder).__module__ == __name__ and cls.__module__ not in (__name__, "builtins"):
            # The class of this module adds no attributes. So the encoder of ut_keras gets the same
            # attributes, instead of reading the vocabulary again.
            built_in: Any = object.__new__(cls)
            built_in.__dict__.update(encoder.__dict__)
            return built_in
    if isinstance(encoder, text_encoder.TextEncoder) and type(encoder).__module__ != __name__:
        return encoder
    return PackageEncoder(encoder, vocab_size)


class PackageEncoder(text_encoder.TextEncoder):
    """Wraps an encoder that a package defines, which has T2T's methods."""

    def __init__(self, encoder: Any, vocab_size: int | None = None) -> None:
        self._encoder = encoder
        self._vocab_size = vocab_size

    @property
    def kind(self) -> str:
        return type(self._encoder).__name__

    @property
    def vocab_size(self) -> int:
        return self._vocab_size or int(self._encoder.vocab_size)

    def encode(self, text: str) -> list[int]:
        return contract.ids("a text", self._encoder.encode(text))

    def decode(self, ids: Iterable[int]) -> str:
        text = self._encoder.decode([int(i) for i in ids])
        return text if isinstance(text, str) else " ".join(map(str, text))  # T2T only prints it
