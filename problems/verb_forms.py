"""The two forms of an English verb in the present tense: "keeps" (VBZ) <-> "keep" (VBP).

By spelling alone; a word of the list of known words decides where spelling leaves a choice.
"""

import re
from collections.abc import Container

TAGS = ("VBZ", "VBP")  # Third person singular, and the other persons.
_IRREGULAR = {"are": "is", "have": "has", "do": "does", "'re": "'s", "'ve": "'s"}
_IRREGULAR_BACK = {"is": "are", "has": "have", "does": "do", "'s": "'re"}
_HISSING = re.compile(r"(s|x|z|ch|sh|[^aeiou]o)$")
_CONSONANT_AND_Y = re.compile(r"[^aeiou]y$")


def other_form(verb: str, tag: str, known: Container[str]) -> str | None:
    """Returns the other form of a verb, or None if it is not known.

    Args:
        verb: str. Or a tag itself, standing for a rare verb: "VBZ" <-> "VBP".
        tag: "VBZ" or "VBP", what the verb is.
        known: container of str, the words that there are.
    """
    if verb in TAGS:
        candidates = [TAGS[1 - TAGS.index(verb)]]
    elif tag == "VBP":
        candidates = [third_person(verb)]
    elif verb in _IRREGULAR_BACK:
        candidates = [_IRREGULAR_BACK[verb]]
    else:
        # "lies": lie, (li), (ly); the first one that there is, is right.
        candidates = [verb[:-1], verb[:-2], verb[:-3] + "y"]
        candidates = [base for base in candidates if third_person(base) == verb]
    return next((word for word in candidates if word in known), None)


def third_person(base: str) -> str:
    """ "keep" -> "keeps", "pass" -> "passes", "carry" -> "carries", "have" -> "has"."""
    if base in _IRREGULAR:
        return _IRREGULAR[base]
    if _CONSONANT_AND_Y.search(base):
        return base[:-1] + "ies"
    return base + ("es" if _HISSING.search(base) else "s")
