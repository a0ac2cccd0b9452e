"""Types that many signatures of layers share."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

Shape = tuple[Any, ...]  # ints; None where it is not known
Config = dict[str, Any]  # what `from_config` takes
Initializer = str | Mapping[str, Any] | keras.initializers.Initializer  # a name, saved, or made
Widths = Mapping[str, tuple[int, int]]  # of a cache: groups and width by the name of a store
Stores = Mapping[str, tf.Tensor]  # of a cache: [N · B · G · C, W] by name, see `cache`
