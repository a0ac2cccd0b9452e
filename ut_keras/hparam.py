"""The old name of `ut_keras.hparam_schema`, importable for one more version."""

import warnings

from ut_keras.hparam_schema import *  # noqa: F403
from ut_keras.hparam_schema import __all__ as __all__

warnings.warn(
    "ut_keras.hparam is now ut_keras.hparam_schema. The next version removes the old name.",
    DeprecationWarning,
    stacklevel=2,
)
