"""Assign numbers to many tokens at once, with numpy.

The table is a hash table with open addressing. A key is two 8-byte words. For a token of up to 15
bytes, 15 bytes of the key hold the token and one byte holds its length. Longer tokens are rare. A
`dict` assigns a number to each of them, and the key holds this number. Therefore different tokens
always have different keys.

The slots of the table hold token numbers, and the keys are stored in the order of these numbers.
Frequent tokens usually get low numbers, so their keys are close together and stay in the
processor's cache.
"""

import collections
import itertools
from typing import Any

import numpy as np

_MAX_SHORT_BYTES = 15  # bytes
_LONG_MARK = 0xFF  # replaces the length in the key of a long token
_WORD = 8
_FIRST_CAPACITY = 2**14
_SLOTS_PER_KEY = 4  # with so many slots, most keys are found in their first slot
_FREE = 0
# Arbitrary odd numbers.
_MULTIPLIERS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


class TokenTable:
    """Gives every token a number, from 1, roughly in the order of first occurrence."""

    def __init__(self) -> None:
        self._count = 1
        self._low = np.zeros(_FIRST_CAPACITY, np.uint64)
        self._high = np.zeros(_FIRST_CAPACITY, np.uint64)  # keys in the order of the numbers
        self._make_slots()
        self._long = collections.defaultdict[bytes, int](itertools.count().__next__)

    def __len__(self) -> int:
        """Return the number that the next new token gets."""
        return self._count

    def numbers(self, tokens: Any) -> np.ndarray:
        """Return the number of each of the `tokenizer_batch.Tokens`, int32 [tokens]."""
        low, high = self._make_keys(tokens)
        if self._count + len(low) > len(self._low):
            self._grow(self._count + len(low))
        slots = self._first_slots(low, high)
        numbers = self._slots.take(slots)
        others = np.flatnonzero(self._differ(numbers, low, high))
        if len(others):
            numbers[others] = self._search(low[others], high[others], slots[others])
        return numbers

    def examples(self, numbers: np.ndarray, first: int) -> np.ndarray:
        """Return where the tokens numbered `first` and higher occur.

        Returns:
            int64 array: for each of these tokens, an index at which `numbers` contains its number.
        """
        new = np.flatnonzero(numbers >= first)
        positions = np.empty(len(self) - first, np.int64)
        positions[numbers[new] - first] = new
        return positions

    def _make_keys(self, tokens):
        """Return the keys as two uint64 arrays [tokens]. The second array contains no 0."""
        num_words = len(tokens.data) - _WORD + 1
        words = np.ndarray(num_words, "<u8", tokens.data, strides=(1,)).copy()  # the words overlap
        sizes = np.minimum(tokens.lengths, _MAX_SHORT_BYTES)
        bits = 8 * sizes
        low = words.take(tokens.starts)
        low <<= np.maximum(64 - bits, 0).view(np.uint64)  # removes the bytes after the token
        high = words.take(tokens.starts + _WORD)
        high <<= (128 - bits).view(np.uint64)
        high |= sizes.view(np.uint64)
        long = np.flatnonzero(tokens.lengths > _MAX_SHORT_BYTES)
        data, starts = tokens.data.tobytes(), tokens.starts[long]
        ends = starts + tokens.lengths[long]
        positions = zip(starts.tolist(), ends.tolist(), strict=True)
        low[long] = [self._long[data[start:end]] for start, end in positions]
        high[long] = _LONG_MARK
        return low, high

    def _search(self, low, high, slots):
        """Return the number of each key. New keys are put into the first free slot."""
        found = np.zeros(len(low), np.int32)
        left = np.arange(len(low))
        while len(left):
            numbers = self._slots[slots]
            free = np.flatnonzero(numbers == _FREE)
            if len(free):
                self._add(low[left[free]], high[left[free]], slots[free])
                numbers = self._slots[slots]
            differ = self._differ(numbers, low[left], high[left])
            found[left[~differ]] = numbers[~differ]
            left = left[differ]
            slots = (slots[differ] + 1) & (len(self._slots) - 1)
        return found

    def _add(self, low, high, slots):
        """Put new keys into free slots. If keys compete for a slot, one of them gets it."""
        claims = -1 - np.arange(len(slots), dtype=np.int32)
        self._slots[slots] = claims
        won = np.flatnonzero(self._slots[slots] == claims)
        numbers = np.arange(self._count, self._count + len(won), dtype=np.int32)
        self._slots[slots[won]] = numbers
        self._low[numbers] = low[won]
        self._high[numbers] = high[won]
        self._count += len(won)

    def _differ(self, numbers, low, high):
        return (self._low.take(numbers) != low) | (self._high.take(numbers) != high)

    def _first_slots(self, low, high):
        """Return the slot at which the search for each key begins, int64."""
        hashes = high * _MULTIPLIERS[0]
        hashes ^= hashes >> np.uint64(29)
        hashes += low
        hashes *= _MULTIPLIERS[1]
        hashes >>= np.uint64(65 - len(self._slots).bit_length())
        return hashes.view(np.int64)

    def _grow(self, capacity):
        while len(self._low) < capacity:
            self._low = np.concatenate([self._low, np.zeros_like(self._low)])
            self._high = np.concatenate([self._high, np.zeros_like(self._high)])
        self._make_slots()

    def _make_slots(self):
        self._slots = np.full(_SLOTS_PER_KEY * len(self._low), _FREE, np.int32)
        numbers = np.arange(1, self._count, dtype=np.int32)
        slots = self._first_slots(self._low[1 : self._count], self._high[1 : self._count])
        while len(numbers):
            free = self._slots[slots] == _FREE
            self._slots[slots[free]] = numbers[free]
            lost = self._slots[slots] != numbers
            numbers = numbers[lost]
            slots = (slots[lost] + 1) & (len(self._slots) - 1)
