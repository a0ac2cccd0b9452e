"""T2T's models.transformer: the functions of its sets, and its classes to derive from."""

from collections.abc import Callable
from typing import Any

from ut_keras.t2t import sets
from ut_keras.t2t.t2t_model import Transformer, TransformerEncoder  # noqa: F401


def __getattr__(name: str) -> Callable[[], Any]:
    return sets.function(name)
