"""Types that the signatures of many layers use."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

Shape = tuple[Any, ...]  # each size is an int, or None if it is unknown
Config = dict[str, Any]  # the argument of `from_config`
Initializer = str | Mapping[str, Any] | keras.initializers.Initializer  # a name, config or object
# Maps the name of a store of a decoding cache to (number of groups G, width W). See `cache.start`.
Widths = Mapping[str, tuple[int, int]]
# Maps the name of a store of a decoding cache to its tensor [N · B · G · C, W].
Stores = Mapping[str, tf.Tensor]


class StepInputs(NamedTuple):
    """The arguments of a layer, a block or a recurrence in addition to the state.

    Fields:
        attention_mask: `AttentionMask`, or bool, broadcastable to [B, H, S, S]. True means that the
            query may attend to the key. None: no mask.
        padding_mask: bool [B, S], True at real tokens. None: no padding. Attention does not read
            this mask.
        memory: the result of `project_memory`, which is the projection of the sequence that a
            decoder attends to. None in an encoder.
        num_steps: int. Number of recurrence steps. None: the number for which the recurrence was
            made.
        exit_threshold: float in (0, 1]. A position halts when the value of its halting rule exceeds
            this threshold. None: the threshold of the halting rule.
        record_attention: bool. True: a recurrence returns the attention weights of every step and
            layer. False: layers need not compute all weights at once. None: a layer or a block
            returns its weights, and a recurrence does not record the weights.
        training: bool.
        running: bool [B, S]. Where `running` is False, sublayers leave the state unchanged. None:
            all positions run. Supported only for a single step.
        cache: `LayerCache` of a layer. For a block, a sequence with one `LayerCache` per layer.
            None: no cache. Supported only for a single step, and only in causal layers.
        record_steps: bool. True: a recurrence returns the state after every step. See
            `step_recording`. Supported only at inference.
        patches: dict from the number of a step to a `StatePatch`, which replaces the state after
            this step. The first step is 1. None: the recurrence keeps every state that it computes.
            Supported only at inference.
        carried: `segments.Carried`, where a segment of training starts. None: the recurrence starts
            from its initial state.
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
    record_steps: bool = False
    patches: Any = None
    carried: Any = None


PLAIN = StepInputs()
