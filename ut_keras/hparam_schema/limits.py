"""Limits for all numbers that a user gives: flags, hparams and decoding options.

A number must fit into 32 bits, because TensorFlow uses 32 bits in shapes and kernels.
"""

import math
import numbers
from typing import Any

LARGEST_FLOAT = 3.4e38
LARGEST_INT = 2**31 - 1
LARGEST_SEED = 2**63 - 1
# Recurrence steps or layers. Each of them adds a part to the graph or a row to a table.
MOST_STEPS = 1024
MOST_POSITIONS = 2**20  # positions of a generated text
MOST_ROWS = 2**10  # outputs that are sampled for one text in the interactive mode
MOST_ALPHA = 10  # with a larger alpha, the length penalty of a long text exceeds 32-bit floats
LEAST_TEMPERATURE = 1e-6  # at a lower temperature, logits / temperature exceed 32-bit floats
MOST_THREADS = 1024  # threads or processes; the system cannot start many more


def unmet_limit(value: float, least: float | None = None, most: float | None = None) -> str | None:
    """Return the limit that a number violates, as words.

    Args:
        value: int or float, of Python or NumPy.
        least, most: the inclusive limits. None means the limit of 32 bits.

    Returns:
        str that completes the sentence "NAME must be …", or None if the number is within the
        limits.

    >>> unmet_limit(0, least=1)
    'at least 1'
    """
    if not isinstance(value, numbers.Real):
        return "a number"
    is_int = isinstance(value, numbers.Integral)
    if not is_int and not math.isfinite(value):
        return "finite"
    largest = LARGEST_INT if is_int else LARGEST_FLOAT
    least = -largest if least is None else least
    most = largest if most is None else most
    if value < least:
        return f"at least {least}"
    return f"at most {most}" if value > most else None


def why_no_int(value: Any, least: int | None = None, most: int | None = None) -> str | None:
    """Return the limit that an int violates, as words, like `unmet_limit`.

    True and False are not accepted as ints.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return "an int" if least is None else f"an int of at least {least}"
    return unmet_limit(int(value), least, most)
