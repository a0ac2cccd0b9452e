"""Named sets of hyperparameters.

    hp = hparams.get("universal_transformer_tiny", "hidden_size=64,num_rec_steps=4")

Importing this package does not import TensorFlow. A set is a function. It usually calls the
function of another set and replaces a few fields:

    @hparams.register("my_universal_transformer")
    def my_universal_transformer():
        return dataclasses.replace(universal_transformer.universal_transformer_small(), num_heads=4)
"""

import importlib
import logging
import pkgutil
from collections.abc import Mapping
from typing import Any

from ut_keras.hparam_schema.basic import BasicHParams
from ut_keras.hparam_schema.field import HParamError
from ut_keras.hparam_schema.ranged_hparams import Range, RangedHParams
from ut_keras.hparams.registry import RANGES, SETS, register, register_range
from ut_keras.process import short_names

__all__ = ["get", "get_range", "names", "range_names", "register", "register_range"]

names, range_names = SETS.names, RANGES.names
_LOG = logging.getLogger("ut_keras")


def get(name: str, overrides: str | Mapping[str, Any] = "") -> BasicHParams:
    """Return a set with some values replaced.

    The function logs a warning for each replaced value that has no effect, such as `learning_rate`
    with a schedule that does not read it.

    Args:
        name: str, one of `names()`.
        overrides: str such as "hidden_size=64,pos=None", or dict from name to value.

    Returns:
        A frozen `TransformerHParams`, `UniversalTransformerHParams`, `LSTMHParams` or
        `NeuralGPUHParams`.

    Raises:
        UnknownNameError: if there is no such set. The message lists similar names.
        HParamError: if an override is malformed or invalid, or if the function of the set does not
            return hyperparameters.
    """
    hp = SETS.get(name)()
    if not isinstance(hp, BasicHParams):
        raise HParamError(
            f"The function of the hparams set {name} must return hparams. Received: {hp!r}."
        )
    changed = hp.override(overrides)
    for note in changed.ignored_notes(hp):
        _LOG.warning("%s", note)
    return changed


def get_range(name: str) -> tuple[Range, ...]:
    """Return the tuple of `Range` that is registered under a name.

    Raises:
        UnknownNameError: if there is no such range. The message lists similar names.
    """
    ranged = RangedHParams()
    RANGES.get(name)(ranged)
    return ranged.ranges


for _module in pkgutil.iter_modules(__path__, "ut_keras.hparams."):
    importlib.import_module(_module.name)
short_names.alias(__name__)
