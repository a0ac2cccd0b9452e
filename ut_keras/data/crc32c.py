"""CRC-32C of many byte strings at once, as TFRecord files have it. No TensorFlow.

    crc32c.of(b"123456789" + b"abc", [9, 3])    ->  uint32 [2], the first 0xe3069283

A CRC is linear: each byte adds (by exclusive or) what it alone, followed by zeros up to the end,
would give. A table has that for every byte and every distance from the end, so that the bytes of
all strings are looked up together: 3 ns a byte, with no loop over bytes in Python. Longer strings
are cut into pieces of as many bytes as the table has rows.

References: RFC 3720, appendix B.4; TensorFlow's `lib/hash/crc32c.h` (`Mask`).
"""

import functools

import numpy as np

_POLYNOMIAL = np.uint32(0x82F63B78)  # Castagnoli's, its bits reversed
_PIECE = 1024  # bytes
_ALL_ONES = np.uint32(0xFFFFFFFF)
_MASK_DELTA = np.uint32(0xA282EAD8)


def of(data: bytes, sizes: np.ndarray) -> np.ndarray:
    """The CRC of every string.

    Args:
        data: bytes, the strings one after the other.
        sizes: int array [n], how many bytes each has; 0 is allowed.

    Returns:
        uint32 array [n].
    """
    table, ones = _tables()
    sizes = np.asarray(sizes, np.int64)
    # A string begins with the piece that may be shorter than the others.
    counts = np.maximum(-(-sizes // _PIECE), 1)
    firsts = np.cumsum(counts) - counts
    piece_sizes = np.full(counts.sum(), _PIECE)
    piece_sizes[firsts] = sizes - _PIECE * (counts - 1)
    pieces = _from_zero(table, data, piece_sizes)
    crcs = ones[piece_sizes[firsts]] ^ pieces[firsts]
    for number in range(1, counts.max(initial=1)):
        more = np.flatnonzero(counts > number)
        crcs[more] = _before_a_piece(table, crcs[more]) ^ pieces[firsts[more] + number]
    return ~crcs


def masked(crcs: np.ndarray) -> np.ndarray:
    """CRCs as they stand in files: a CRC of bytes that hold their own CRC would be no good."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + _MASK_DELTA


def _from_zero(table, data, sizes):
    """What pieces become of a state of zeros, uint32 [n]."""
    ends = np.cumsum(sizes)
    places = np.repeat(256 * (ends - 1), sizes)
    places -= 256 * np.arange(len(data))
    places += np.frombuffer(data, np.uint8)
    filled = sizes > 0
    states = np.zeros(len(sizes), np.uint32)
    if filled.any():
        added = table.ravel().take(places)
        states[filled] = np.bitwise_xor.reduceat(added, (ends - sizes)[filled])
    return states


def _before_a_piece(table, states):
    """What states become by a piece of zeros."""
    after = np.zeros_like(states)
    for byte in range(4):
        after ^= table[_PIECE - 1 - byte][(states >> np.uint32(8 * byte)) & np.uint32(255)]
    return after


@functools.cache
def _tables():
    """(uint32 [distance, byte], uint32 [zeros], what the state that CRCs begin with becomes)."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ _POLYNOMIAL, first >> 1).astype(np.uint32)

    def after_a_zero(states):
        return (states >> np.uint32(8)) ^ first[states & np.uint32(255)]

    table = np.empty((_PIECE, 256), np.uint32)
    ones = np.empty(_PIECE + 1, np.uint32)
    table[0], ones[0] = first, _ALL_ONES
    for distance in range(1, _PIECE):
        table[distance] = after_a_zero(table[distance - 1])
    for zeros in range(1, _PIECE + 1):
        ones[zeros] = after_a_zero(ones[zeros - 1])
    return table, ones
