"""Types that the signatures of many layers use."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

Shape = tuple[Any, ...]  # ints; None for an unknown size
Config = dict[str, Any]  # argument of `from_config`
Initializer = str | Mapping[str, Any] | keras.initializers.Initializer  # name, config or object
Widths = Mapping[str, tuple[int, int]]  # cache: name of a store -> (number of groups, width)
Stores = Mapping[str, tf.Tensor]  # cache: name of a store -> [N · B · G · C, W], see `cache`


class StepInputs(NamedTuple):
    """The arguments of a layer, a block or a recurrence in addition to the state.

    Fields:
        attention_mask: bool, broadcastable to [B, H, S, S]; True = may attend. Or an
            `AttentionMask`, which TensorFlow's functions convert to such a tensor. None: no mask.
        padding_mask: bool [B, S], True at real tokens. None: no padding. Attention does not use it.
        memory: the result of `project_memory`: the sequence that a decoder attends to, projected.
            None in an encoder.
        num_steps: int. Number of recurrence steps. None: the recurrence's own number.
        exit_threshold: float in (0, 1]. A position halts above it. None: the halting rule's own
            threshold.
        record_attention: bool. Whether to return the attention weights of every step and layer. If
            it is False, layers need not compute all weights at once. None: a layer or a block
            returns its weights, and a recurrence does not record them.
        training: bool.
        running: bool [B, S]. Sublayers leave the state unchanged where it is False. None: True
            everywhere. Only for a single step.
        cache: `LayerCache`, or a sequence of them for a block, one for each layer. None: no cache.
            Only for a single step, and only in causal layers.
    """

    attention_mask: Any = None
    padding_mask: tf.Tensor | None = None
    memory: Any = None
    num_steps: int | None = None
    exit_threshold: float | None = None
    record_attention: bool | None = None
    training: bool | None = None
    running: tf.Tensor | None = None
    cache: Any = None


PLAIN = StepInputs()
