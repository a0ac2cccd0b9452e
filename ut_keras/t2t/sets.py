"""The functions that T2T's modules have for named sets: ours, by name, as values to change."""

from collections.abc import Callable
from typing import Any

from ut_keras import hparams as hparams_lib
from ut_keras.hparams.registry import RANGES
from ut_keras.t2t import hparam


def function(name: str) -> Callable[..., Any]:
    """The function of a set, which returns an `HParams`, or of a range.

    Raises:
        AttributeError: if there is no such set.
    """
    if name in RANGES:
        return RANGES.get(name)
    if name not in hparams_lib.names():
        raise AttributeError(name)
    return lambda: hparam.of(hparams_lib.get(name))
