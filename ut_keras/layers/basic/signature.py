"""Types that many signatures of layers share."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

Shape = tuple[Any, ...]  # ints; None where it is not known
Config = dict[str, Any]  # what `from_config` takes
Initializer = str | Mapping[str, Any] | keras.initializers.Initializer  # a name, saved, or made
Widths = Mapping[str, tuple[int, int]]  # of a cache: groups and width by the name of a store
Stores = Mapping[str, tf.Tensor]  # of a cache: [N · B · G · C, W] by name, see `cache`


class StepInputs(NamedTuple):
    """What a layer, a block of them and all depth are given besides the state.

    Fields:
        attention_mask: bool, broadcastable to [B, H, S, S]; True = may attend. None: all may.
        padding_mask: bool [B, S], True at real tokens. None: all are. It masks no attention.
        memory: from `project_memory`, what a decoder attends to besides. None in an encoder.
        num_steps: int. Steps in depth; None: as many as the recurrence was made for.
        exit_threshold: float in (0, 1]. A position halts beyond it; None: beyond the rule's own.
        record_attention: bool. Whether depth keeps the attention weights of every step and layer.
        training: bool.
        running: bool [B, S]. Where it is False a state passes every sublayer unchanged. None: all
            run. Only of a step.
        cache: `LayerCache`, of a block one for each layer; None: nothing is kept. Only of a step,
            and only where it is causal.
    """

    attention_mask: tf.Tensor | None = None
    padding_mask: tf.Tensor | None = None
    memory: Any = None
    num_steps: int | None = None
    exit_threshold: float | None = None
    record_attention: bool = False
    training: bool | None = None
    running: tf.Tensor | None = None
    cache: Any = None


PLAIN = StepInputs()
