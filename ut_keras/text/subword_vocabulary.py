"""Build subword vocabularies from token counts as T2T does, with numpy.

    VocabularyBuilder({"cool": 3, "so": 5}).build(min_count=2)  ->  ["<pad>_", "<EOS>_", "so_", ...]

All substrings of the tokens form a tree. A node is a string, and its parent is the string without
the last character. Level n of the tree has the strings of n characters. Such a string may begin at
many positions in the tokens. For each of these positions, the level stores the number of the
string's node. Therefore counting, splitting and choosing take only a few array operations per
level. Strings that are too rare to be chosen are pruned.
"""

import collections
import re
import typing
from collections.abc import Container, Mapping, Sequence

import numpy as np

from ut_keras.text.text_encoder_base import RESERVED_TOKENS

ESCAPE_CHARACTERS = frozenset("\\_u;0123456789")
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")
_UNKNOWN_CHARACTER = "\u3013"


def escape_token(token: str, alphabet: Container[str]) -> str:
    r"""Return a token with only characters of the alphabet, and `_` only at its end.

    "a_b"  ->  "a\ub_"        with "é" not in the alphabet:  "é"  ->  "\233;_"
    """
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    characters = [c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in token]
    return "".join(characters) + "_"


def unescape_token(escaped: str) -> str:
    """Invert `escape_token`. The `_` at the end may be missing."""

    def original(match):
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        try:
            return chr(int(match[1]))
        except (ValueError, OverflowError):
            return _UNKNOWN_CHARACTER

    return _ESCAPED.sub(original, escaped.removesuffix("_"))


_CODE_POINT_BITS = 21
# Longer tokens are hardly ever words. Only the first characters of such a token are used, because
# every further character would add strings to hundreds of levels of the tree. T2T uses the complete
# token.
_MAX_TOKEN_LENGTH = 1000


class VocabularyBuilder:
    """Builds vocabularies of different sizes from the same tokens.

    Args:
        token_counts, max_subtoken_length, reserved_tokens: as for
            `SubwordTextEncoder.build_to_target_size`.
    """

    def __init__(
        self,
        token_counts: Mapping[str, int],
        max_subtoken_length: int | None = None,
        reserved_tokens: Sequence[str] = RESERVED_TOKENS,
    ) -> None:
        self._alphabet = {c for token in [*token_counts, *reserved_tokens] for c in token}
        self._alphabet |= ESCAPE_CHARACTERS
        token_counts = _truncate_long_tokens(token_counts)
        escaped = [
            token + "_" if token.isalnum() else escape_token(token, self._alphabet)
            for token in token_counts
        ]
        self._reserved = [escape_token(token, self._alphabet) for token in reserved_tokens]
        self._text = "".join(escaped)
        self._codes = np.frombuffer(self._text.encode("utf-32-le", "surrogatepass"), np.uint32)
        lengths = np.fromiter(map(len, escaped), np.int64, len(escaped))
        self._token_ends = np.cumsum(lengths)
        self._token_starts = self._token_ends - lengths
        counts = np.fromiter(token_counts.values(), np.int64, len(lengths))
        self._counts = counts.repeat(lengths)  # the count of the token at each position
        self._ends = self._token_ends.repeat(lengths)
        # T2T's bound is exclusive: a subtoken has fewer than `max_subtoken_length` characters.
        self._longest = int(lengths.max(initial=0))
        if max_subtoken_length is not None:
            self._longest = min(self._longest, max_subtoken_length - 1)

    def build(self, min_count: int, num_iterations: int = 4) -> list[str]:
        """Return the subtokens that occur at least `min_count` times, most frequent first.

        The first subtokens are the single characters. Each iteration splits all tokens with the
        current subtokens and counts every string that begins at the start of a piece. The next
        subtokens are the strings with at least `min_count` occurrences. Occurrences of a string at
        the beginning of a longer subtoken are not counted.

        Raises:
            ValueError: if num_iterations < 1.
        """
        if num_iterations < 1:
            raise ValueError(f"num_iterations must be at least 1. Received: {num_iterations}.")
        min_count = max(1, min_count)
        levels = self._make_levels(min_count)
        chosen = [np.zeros(level.num_nodes, bool) for level in levels]
        for iteration in range(num_iterations):
            is_start = self._split(levels, chosen, with_reserved=iteration > 0)
            counts = self._count(levels, is_start)
            chosen = _choose(levels, counts, min_count)
        return self._reserved + self._sorted(levels, chosen, counts)

    def _make_levels(self, min_count):
        """Return the levels of the tree, beginning with strings of one character."""
        levels: list[_Level] = []
        positions = np.arange(len(self._codes))
        parents_of_positions = np.zeros(len(positions), np.int64)
        while len(positions) and len(levels) < max(1, self._longest):
            codes = self._codes.take(positions + len(levels))
            keys = parents_of_positions << _CODE_POINT_BITS | codes
            nodes = np.unique(keys, return_inverse=True)[1]
            num_nodes = nodes.max() + 1
            totals = np.bincount(nodes, self._counts.take(positions), num_nodes)
            if levels:
                # Strings that are too rare even if all positions are counted are never chosen.
                is_kept = totals >= min_count
                is_position_kept = is_kept.take(nodes)
                positions, nodes = positions[is_position_kept], nodes[is_position_kept]
                parents_of_positions = parents_of_positions[is_position_kept]
                nodes = (np.cumsum(is_kept) - 1).take(nodes)
                num_nodes = np.count_nonzero(is_kept)
            parents = np.zeros(num_nodes, np.int64)
            parents[nodes] = parents_of_positions
            examples = np.zeros(num_nodes, np.int64)
            examples[nodes] = positions
            levels.append(_Level(positions, nodes, parents, examples))
            continues = self._ends.take(positions) > positions + len(levels)
            if len(levels) == 1:
                continues &= (totals >= min_count).take(nodes)
            positions, parents_of_positions = positions[continues], nodes[continues]
        return levels

    def _split(self, levels, chosen, with_reserved):
        """Split all tokens, always at the longest chosen string from the left.

        Returns:
            bool [positions], True where a piece begins.
        """
        longest = np.ones(len(self._codes), np.int64)  # single characters always match
        for i, level in enumerate(levels):
            longest[level.positions[chosen[i].take(level.nodes)]] = i + 1
        for reserved in self._reserved if with_reserved else ():
            found = [match.start() for match in re.finditer(re.escape(reserved), self._text)]
            longest[found] = np.maximum(longest[found], len(reserved))
        is_start = np.zeros(len(self._codes), bool)
        positions, ends = self._token_starts, self._token_ends
        while len(positions):
            is_start[positions] = True
            positions = positions + longest.take(positions)
            continues = positions < ends
            positions, ends = positions[continues], ends[continues]
        return is_start

    def _count(self, levels, is_start):
        """Count the strings that begin at the start of a piece: per level int64 [nodes]."""
        counts: list[np.ndarray] = []
        for level in levels:
            at = is_start.take(level.positions)
            weights = self._counts.take(level.positions[at])
            # float64 is exact for integers up to 2^53.
            found = np.bincount(level.nodes[at], weights, level.num_nodes).astype(np.int64)
            counts.append(found if len(counts) < self._longest else np.zeros_like(found))
        return counts

    def _sorted(self, levels, chosen, counts):
        """Return the subtokens, most frequent first, including the complete alphabet."""
        subtokens = dict.fromkeys(self._alphabet, 0)
        for i, level in enumerate(levels):
            taken = np.flatnonzero(chosen[i] if i else np.ones(level.num_nodes, bool))
            positions = level.examples.take(taken).tolist()
            for position, count in zip(positions, counts[i].take(taken).tolist(), strict=True):
                subtokens[self._text[position : position + i + 1]] = count
        pairs = ((count, subtoken) for subtoken, count in subtokens.items())
        return [subtoken for _, subtoken in sorted(pairs, reverse=True)]


def _truncate_long_tokens(token_counts):
    """Return token counts with tokens cut to `_MAX_TOKEN_LENGTH` characters."""
    if max(map(len, token_counts), default=0) <= _MAX_TOKEN_LENGTH:
        return token_counts
    cut: collections.Counter[str] = collections.Counter()
    for token, count in token_counts.items():
        cut[token[:_MAX_TOKEN_LENGTH]] += count
    return cut


class _Level(typing.NamedTuple):
    """The strings of one length."""

    positions: np.ndarray  # int64 [positions], where sufficiently frequent strings begin
    nodes: np.ndarray  # int64 [positions], the number of the string that begins there
    parents: np.ndarray  # int64 [nodes], the numbers of the parents in the level above
    examples: np.ndarray  # int64 [nodes], one position at which the string begins

    @property
    def num_nodes(self):
        return len(self.parents)


def _choose(levels, counts, min_count):
    """Return which strings have at least `min_count`: per level bool [nodes].

    The occurrences inside longer chosen strings are first subtracted from `counts`, in place.
    """
    chosen = [np.zeros(0, bool)] * len(levels)
    # The number of occurrences of each string inside longer chosen strings.
    taken = np.zeros(levels[-1].num_nodes if levels else 0, np.int64)
    for i in reversed(range(len(levels))):
        counts[i] -= taken
        chosen[i] = counts[i] >= min_count
        if i:
            taken = taken + counts[i] * chosen[i]
            # The float64 sums of `bincount` are exact, as in `_count`.
            above = levels[i - 1].num_nodes
            taken = np.bincount(levels[i].parents, taken, above).astype(np.int64)
    return chosen
