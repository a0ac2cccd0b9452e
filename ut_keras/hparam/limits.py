"""Which numbers can be meant at all, whichever way they come: flags, hparams, a search's options.

A number has to fit into 32 bits, as it does in TensorFlow's shapes and kernels.
"""

import math
import numbers
from typing import Any

LARGEST_FLOAT = 3.4e38
LARGEST_INT = 2**31 - 1
LARGEST_SEED = 2**63 - 1
MOST_STEPS = 1000  # of depth; each is a part of the graph or a row of a table
MOST_POSITIONS = 2**20  # of a text that is written
MOST_ROWS = 2**10  # of the same text, typed once
MOST_ALPHA = 10  # beyond it the length penalty of a long text has no 32-bit number
LEAST_TEMPERATURE = 1e-6  # below it logits divided by it have none
MOST_THREADS = 1024  # or processes; many more do not start


def unmet_limit(value: float, least: float | None = None, most: float | None = None) -> str | None:
    """What a number should be and is not.

    Args:
        value: int or float, Python's or numpy's.
        least, most: the limits, both allowed; None for those of 32 bits.
    Returns:
        str that continues "NAME must be", or None if nothing is wrong.
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
    """Return what an int should be and is not, as `why_not`; True and False are no ints."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return "an int" if least is None else f"an int of at least {least}"
    return why_not(int(value), least, most)
