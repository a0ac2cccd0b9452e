"""The division of the positions of a sequence into blocks."""

from typing import Any, NamedTuple

import tensorflow as tf

# Sizes of blocks are multiples of this number, so that products are fast.
_MULTIPLE = 16


class Blocks(NamedTuple):
    """The division of a length into blocks of equal size. The last block is padded."""

    length: Any  # int or int32 scalar, like the other fields
    size: Any
    count: Any

    @classmethod
    def of(cls, length: Any, largest: int) -> "Blocks":
        """Divide a length into as few blocks as possible, with sizes up to `largest`."""
        count = tf.maximum(-(-length // largest), 1)
        size = tf.maximum(-(-length // count), 1)
        size = tf.minimum(-(-size // _MULTIPLE) * _MULTIPLE, tf.minimum(largest, length))
        size = static(tf.maximum(size, 1))
        return cls(length, size, static(tf.maximum(-(-length // size), 1)))

    @property
    def padded(self) -> Any:
        """The length including the padding of the last block."""
        return self.size * self.count

    @property
    def may_pad(self) -> bool:
        """Whether the last block may have padding."""
        return not isinstance(self.padded, int) or self.padded != self.length


def static(x: Any) -> Any:
    """Return a scalar tensor as an int if its value is known, otherwise unchanged."""
    value = tf.get_static_value(x)
    return x if value is None else int(value)
