"""What depth is, whatever makes it: the contract of encoders and decoders, what passes record."""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic.layer import build_all
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs
from ut_keras.layers.depth import state_layer
from ut_keras.layers.depth.state_layer import PonderTerm
from ut_keras.layers.halting import halting


class Steps(NamedTuple):
    """The steps of a recurrence that have losses; N is the most that there could be."""

    states: tf.Tensor  # [N, B, S, D]; 0 where a step was not taken
    weights: tf.Tensor  # [N, B, S] float32, w^n; 0 there, the sum over N is 1
    # float32 [N, B, S], or [N, B] of whole rows: logits, whether the answer is right by now; None
    # where nobody says.
    confidence: tf.Tensor | None = None


class StackOutput(NamedTuple):
    """The state at the end of all depth, and how it came about. N counts steps times layers."""

    output: tf.Tensor  # [B, S, D]
    ponder_times: tf.Tensor | None = None  # [B, S] float32, in steps; [B] for a global halting
    remainders: tf.Tensor | None = None  # like ponder_times, in [0, 1]
    attention_weights: tf.Tensor | None = None  # [N, B, H, S, S] float32, if recorded
    memory_attention_weights: tf.Tensor | None = None  # [N, B, H, T, S] float32, if recorded
    ponder_cost: tf.Tensor | None = None  # like ponder_times, what pondering costs
    tally: tuple = ()  # of each layer float32 [B, W], or () where it costs nothing; in training
    steps: Steps | None = None  # in training, where the loss is a mean of those of several


class Depth(state_layer.StateLayer):
    """Takes a state through all steps or layers, in one pass or piece by piece.

    `forward` sees all positions. Decoding sees some at a time: `start_cache` makes an empty cache,
    `extend` takes the next positions through all depth, which read what the cache has of those
    before them. Both give a position the same output. `move_columns` makes room in a cache.

    A subclass has `forward` and `extend`; for the rest it asks its `inner`.
    """

    # Attributes that are layers or None, and are built with the shape of the state, in this order.
    layer_attributes: tuple[str, ...] = ("block",)
    num_steps = 1  # how often it takes its block
    timing: Any = None  # a `StepTimingSignal`, where a step has signals

    def build(self, state_shape: Shape) -> None:
        build_all(self._layers_given(), state_shape)

    @property
    def inner(self) -> Any:
        """What it asks for all that it does not know itself: the block."""
        return self.block

    def project_memory(self, memory: tf.Tensor, attention_mask: tf.Tensor | None) -> Any:
        return self.inner.project_memory(memory, attention_mask)

    def extra_terms(self, tally: Any, rows: tf.Tensor | None = None) -> list[PonderTerm]:
        return self.inner.extra_terms(tally, rows)

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
        of_signals = () if self.timing is None else (self.timing.cache_widths(),)
        return (*self.block.cache_widths(), *of_signals)

    @property
    def places_matter(self) -> bool:
        """Whether it depends on where columns lie in a cache what is read of them."""
        signals_matter = self.timing is not None and bool(self.timing.cache_widths())
        return signals_matter or self.inner.places_matter

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

    def _layers_given(self):
        given = (getattr(self, name) for name in self.layer_attributes)
        return [layer for layer in given if layer is not None]


class Around(Depth):
    """Depth that has another inside, `inner`, and is like it but for what a subclass says."""

    @property
    def trains_by_steps(self) -> bool:
        return self.inner.trains_by_steps

    @property
    def rule(self) -> halting.Rule | None:
        return self.inner.rule

    def ponder_terms(
        self, result: Any, padding_mask: tf.Tensor | None, rows: tf.Tensor | None = None
    ) -> list[PonderTerm]:
        return self.inner.ponder_terms(result, padding_mask, rows)

    def check_steps(self, num_steps: int | None) -> None:
        self.inner.check_steps(num_steps)

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        return self.inner.start_cache(size)

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        return self.inner.move_columns(cache, size, order)


# What a loop collects of its steps, if it is asked to; else it carries (), which costs nothing:
# their states, for a loss of all of them, and the attention weights, for looking at them.


class StepRecord(NamedTuple):
    """The steps so far; entry 0 is empty. A loop carries it in its state."""

    states: tf.TensorArray
    weights: tf.TensorArray


def start_steps(state: tf.Tensor, max_steps: int) -> StepRecord:
    """An empty record of states like this one, [B, S, D]."""
    # An array nobody writes to has no shape: entry 0 is there if the loop takes no step.
    no_weight = tf.zeros(tf.shape(state)[:2])
    return StepRecord(_array(tf.zeros_like(state), max_steps), _array(no_weight, max_steps))


def add_steps(
    record: StepRecord, step: tf.Tensor, state: tf.Tensor, weights: tf.Tensor
) -> StepRecord:
    """The record with one step, an int32 scalar from 0: its state [B, S, D], weights [B, S]."""
    return StepRecord(record.states.write(step + 1, state), record.weights.write(step + 1, weights))


def stack_steps(record: StepRecord | tuple[()]) -> Steps | None:
    """`Steps`; None if not recorded."""
    return Steps(record.states.stack()[1:], record.weights.stack()[1:]) if record else None


def _array(first, max_steps):
    return tf.TensorArray(
        first.dtype, size=max_steps + 1, element_shape=first.shape, clear_after_read=False
    ).write(0, first)


# Attention weights so far, one entry per step and layer, of [B, H, S, S] float32; in a decoder also
# those to the memory, [B, H, T, S]. A loop carries it in its state; () if nothing is recorded.
AttentionRecord = tuple[tf.TensorArray, ...]


def start_attention(enabled: bool | None, memory: Any) -> AttentionRecord:
    """An empty record; () if it is not `enabled`. In an encoder the memory is None."""
    if not enabled:
        return ()
    return (_weights_array(), _weights_array()) if memory else (_weights_array(),)


def add_attention(record: AttentionRecord, step: tf.Tensor, block_output: Any) -> AttentionRecord:
    """The record with the weights of one step, an int32 scalar, from its `BlockOutput`."""
    weights = (block_output.attention_weights, block_output.memory_attention_weights)
    return tuple(
        _write(array, step, of_layers) for array, of_layers in zip(record, weights, strict=False)
    )


def stack_attention(record: AttentionRecord) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """(attention [N, B, H, S, S], memory attention [N, B, H, T, S]); each None if not recorded."""
    attention, memory_attention, *_ = (*(array.stack() for array in record), None, None)
    return attention, memory_attention


def _weights_array():
    return tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)


def _write(array, step, weights):
    for layer, weight in enumerate(weights):
        array = array.write(step * len(weights) + layer, weight)
    return array
