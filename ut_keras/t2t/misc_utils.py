"""How T2T makes a name of the name of a class or function."""

import re

# Before a capital with small letters behind it, and between a small letter and a capital.
_BOUNDARY = re.compile(r"(?<=.)(?=[A-Z][a-z0-9]+)|(?<=[a-z0-9])(?=[A-Z])")


def camelcase_to_snakecase(name: str) -> str:
    """TranslateEnFa8k -> translate_en_fa8k."""
    return _BOUNDARY.sub("_", name).lower()


def snakecase_to_camelcase(name: str) -> str:
    """translate_en_fa8k -> TranslateEnFa8k."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))
