"""What depth is, whatever makes it: the contract of encoders and decoders, what passes record."""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic.layer import build_all
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs
from ut_keras.layers.depth import state_layer
from ut_keras.layers.depth.state_layer import PonderTerm
from ut_keras.layers.halting import halting


class SupervisedSteps(NamedTuple):
    """The steps of a recurrence that have losses; N is the most that there could be."""

    states: tf.Tensor  # [N, B, S, D]; 0 if the step was not taken
    # float32 [N, B, S], the weight w^n of each loss; 0 if the step was not taken. Sums to 1 over N.
    weights: tf.Tensor
    # float32 [N, B, S], or [N, B] if a complete example halts as a unit. Logits of the probability
    # that the prediction after this step is correct; None if the halting rule does not predict it.
    confidence: tf.Tensor | None = None


class StackOutput(NamedTuple):
    """The state at the end of all depth, and how it came about. N counts steps times layers."""

    output: tf.Tensor  # [B, S, D]
    ponder_times: tf.Tensor | None = None  # [B, S] float32, in steps; [B] for a global halting
    remainders: tf.Tensor | None = None  # like ponder_times, in [0, 1]
    attention_weights: tf.Tensor | None = None  # [N, B, H, S, S] float32, if recorded
    memory_attention_weights: tf.Tensor | None = None  # [N, B, H, T, S] float32, if recorded
    ponder_cost: tf.Tensor | None = None  # like ponder_times
    # In training, per layer: float32 [B, W], or () if the layer has no auxiliary loss. See
    # `TransformerLayer`.
    auxiliary_loss_stats: tuple = ()
    # In training, if the loss uses the states of several steps.
    steps: SupervisedSteps | None = None


class Depth(state_layer.StateLayer):
    """Takes a state through all steps or layers, in one pass or piece by piece.

    `forward` sees all positions. Decoding sees some at a time: `start_cache` makes an empty cache,
    `extend` takes the next positions through all depth, which read what the cache has of those
    before them. Both give a position the same output. `move_columns` makes room in a cache.

    A subclass has `forward` and `extend`; for the rest it asks its `inner`.
    """

    # Names of attributes that are layers or None. They are built in this order, with the state's
    # shape.
    layer_attributes: tuple[str, ...] = ("block",)
    num_steps = 1  # how many times the block is applied
    timing: Any = None  # a `StepTimingSignal`, if steps have signals

    def build(self, state_shape: Shape) -> None:
        build_all(self._present_layers(), state_shape)

    @property
    def inner(self) -> Any:
        """What it asks for all that it does not know itself: the block."""
        return self.block

    def project_memory(self, memory: tf.Tensor, attention_mask: tf.Tensor | None) -> Any:
        return self.inner.project_memory(memory, attention_mask)

    def auxiliary_losses(
        self, auxiliary_loss_stats: Any, example_weights: tf.Tensor | None = None
    ) -> list[PonderTerm]:
        return self.inner.auxiliary_losses(auxiliary_loss_stats, example_weights)

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        """See `StateLayer.forward`; `StackOutput`.

        Raises:
            ValueError: if there cannot be so many steps, as `check_steps`.
        """
        raise NotImplementedError

    @property
    def rule(self) -> halting.Rule | None:
        """The `halting.Rule` of what ponders in it; None where nothing does."""
        return None

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        """An empty cache for `extend`; its size says how many steps there will be, too."""
        steps = size.num_steps or self.num_steps
        widths = self._cache_widths()
        return tuple(cache_lib.start(part, size, steps, self.compute_dtype) for part in widths)

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        """A cache of other columns.

        Args:
            cache: what `start_cache` or `extend` returned.
            size: its `CacheSize`.
            order: int32 [B, C'], which column each of the new ones is. Where `places_matter`, those
                that are there stay where they are.
        """
        return tuple(
            cache_lib.moved(part, widths, size, order)
            for part, widths in zip(cache, self._cache_widths(), strict=True)
        )

    def _cache_widths(self) -> tuple:
        """What a cache keeps, of each layer and of the signals, see `cache.start`."""
        signal_widths = () if self.timing is None else (self.timing.cache_widths(),)
        return (*self.block.cache_widths(), *signal_widths)

    @property
    def cache_order_matters(self) -> bool:
        """Whether it depends on where columns lie in a cache what is read of them."""
        signals_matter = self.timing is not None and bool(self.timing.cache_widths())
        return signals_matter or self.inner.cache_order_matters

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        """The pass over some columns of what a decoder writes, after those that they see.

        Args:
            state: float tensor [B, Q, D], of the columns of the window.
            cache: what `start_cache` or `extend` returned.
            memory: as in `forward`.
        Returns:
            (output [B, Q, D], cache).
        """
        raise NotImplementedError

    def check_steps(self, num_steps: int | None) -> None:
        """Checks the number of steps that a pass is to take; the most, where positions decide.

        Args:
            num_steps: int; None stands for that which it was made for.
        Raises:
            ValueError: if the depth is fixed, or there is a weight for each step.
        """
        if self.timing is not None:
            self.timing.check_steps(num_steps)
        elif num_steps is not None:
            raise ValueError(
                f"num_steps needs recurrence in depth. Received: num_steps={num_steps} of a "
                f"{type(self).__name__}."
            )

    def _present_layers(self):
        layers = (getattr(self, name) for name in self.layer_attributes)
        return [layer for layer in layers if layer is not None]


class DepthWrapper(Depth):
    """Depth that has another inside, `inner`, and is like it but for what a subclass says."""

    @property
    def trains_by_steps(self) -> bool:
        return self.inner.trains_by_steps

    @property
    def rule(self) -> halting.Rule | None:
        return self.inner.rule

    def ponder_terms(
        self,
        result: Any,
        padding_mask: tf.Tensor | None,
        example_weights: tf.Tensor | None = None,
    ) -> list[PonderTerm]:
        return self.inner.ponder_terms(result, padding_mask, example_weights)

    def check_steps(self, num_steps: int | None) -> None:
        self.inner.check_steps(num_steps)

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        return self.inner.start_cache(size)

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        return self.inner.move_columns(cache, size, order)


# Records. A loop can record the states of its steps, for a loss that uses all of them, and the
# attention weights, for inspection. It carries the records in its state; without recording it
# carries (), which costs nothing.


class StepRecord(NamedTuple):
    """The steps so far; entry 0 is empty. A loop carries it in its state."""

    states: tf.TensorArray
    weights: tf.TensorArray


def start_step_record(state: tf.Tensor, max_steps: int) -> StepRecord:
    """An empty record of states like this one, [B, S, D]."""
    # Stacking a TensorArray that was never written fails, so entry 0 is always written.
    no_weight = tf.zeros(tf.shape(state)[:2])
    return StepRecord(
        _tensor_array(tf.zeros_like(state), max_steps), _tensor_array(no_weight, max_steps)
    )


def add_to_step_record(
    record: StepRecord, step: tf.Tensor, state: tf.Tensor, weights: tf.Tensor
) -> StepRecord:
    """The record with one step, an int32 scalar from 0: its state [B, S, D], weights [B, S]."""
    return StepRecord(record.states.write(step + 1, state), record.weights.write(step + 1, weights))


def stack_step_record(record: StepRecord | tuple[()]) -> SupervisedSteps | None:
    """`Steps`; None if not recorded."""
    if not record:
        return None
    return SupervisedSteps(record.states.stack()[1:], record.weights.stack()[1:])


def _tensor_array(first, max_steps):
    return tf.TensorArray(
        first.dtype, size=max_steps + 1, element_shape=first.shape, clear_after_read=False
    ).write(0, first)


# The attention weights so far, as part of a loop state: one array with one entry per step and
# layer, each [B, H, S, S] float32. A decoder has a second array for the attention to the memory,
# [B, H, T, S]. It is () if nothing is recorded.
AttentionRecord = tuple[tf.TensorArray, ...]


def start_attention_record(enabled: bool | None, memory: Any) -> AttentionRecord:
    """An empty record; () if it is not `enabled`. In an encoder the memory is None."""
    if not enabled:
        return ()
    return (_weights_array(), _weights_array()) if memory else (_weights_array(),)


def add_to_attention_record(
    record: AttentionRecord, step: tf.Tensor, block_output: Any
) -> AttentionRecord:
    """The record with the weights of one step, an int32 scalar, from its `BlockOutput`."""
    weights = (block_output.attention_weights, block_output.memory_attention_weights)
    return tuple(
        _write(array, step, layer_weights)
        for array, layer_weights in zip(record, weights, strict=False)
    )


def stack_attention_record(
    record: AttentionRecord,
) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """(attention [N, B, H, S, S], memory attention [N, B, H, T, S]); each None if not recorded."""
    attention, memory_attention, *_ = (*(array.stack() for array in record), None, None)
    return attention, memory_attention


def _weights_array():
    return tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)


def _write(array, step, weights):
    for layer, weight in enumerate(weights):
        array = array.write(step * len(weights) + layer, weight)
    return array
