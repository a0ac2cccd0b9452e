"""The interface of encoder and decoder stacks."""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic.layer import build_all
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs
from ut_keras.layers.depth import state_layer
from ut_keras.layers.depth.step_recording import RecordedSteps
from ut_keras.layers.depth.supervised_recording import SupervisedSteps
from ut_keras.layers.halting import halting
from ut_keras.ops.loss_term import LossTerm


class StackOutput(NamedTuple):
    """The result of all steps or layers.

    In the shapes of attention weights, N is the number of steps times the layers per step.
    """

    output: tf.Tensor  # [B, S, D]
    # float32 [B, S], or [B] if all positions of an example halt together. The unit is steps.
    ponder_times: tf.Tensor | None = None
    remainders: tf.Tensor | None = None  # like ponder_times, with values in [0, 1]
    attention_weights: tf.Tensor | None = None  # [N, B, H, S, S] float32, if recorded
    memory_attention_weights: tf.Tensor | None = None  # [N, B, H, T, S] float32, if recorded
    ponder_cost: tf.Tensor | None = None  # has the shape of ponder_times
    # In training, this tuple has one entry per layer: float32 [B, W], or () if the layer has no
    # auxiliary loss. See `TransformerLayer`.
    auxiliary_loss_stats: tuple = ()
    # Set in training if the loss uses the states of several steps.
    steps: SupervisedSteps | None = None
    # float32 [N, B, S], the relative change of the state in every step. Set if attention weights
    # are recorded. See `fixed_point`.
    residuals: tf.Tensor | None = None
    # float32 [B, S], the relative change in the last step of each position. Set in training if
    # there is a fixed-point loss.
    last_residual: tf.Tensor | None = None
    # `segments.Carried`. Set in training if the recurrence has several segments.
    carried: Any = None
    recorded: RecordedSteps | None = None  # set if the call has `record_steps`


class Depth(state_layer.StateLayer):
    """Base class of layers that apply all steps of a recurrence, or all layers.

    - `forward` computes all positions at once.
    - Decoding computes a few positions at a time: `start_cache` returns an empty cache, and
      `extend` computes all steps of the next positions. The new positions attend to earlier
      positions through the cache. `forward` and `extend` give a position the same output.
    - `move_columns` enlarges a cache, or removes columns from it.

    A subclass implements `forward` and `extend`. The other methods delegate to `inner`.
    """

    # Names of attributes that are layers or None. `build` builds these layers in this order, with
    # the shape of the state.
    layer_attributes: tuple[str, ...] = ("block",)
    num_steps = 1  # how many times the block is applied in a segment
    num_segments: Any = 1  # see `segments`
    timing: Any = None  # a `StepTimingSignal`, or None if the steps have no signals
    fixed_point_loss_weight = 0.0

    def build(self, state_shape: Shape) -> None:
        build_all(self._present_layers(), state_shape)

    @property
    def inner(self) -> Any:
        """The layer to which methods delegate. By default, this is the block."""
        return self.block

    def project_memory(self, memory: tf.Tensor, attention_mask: tf.Tensor | None) -> Any:
        return self.inner.project_memory(memory, attention_mask)

    def auxiliary_losses(
        self, auxiliary_loss_stats: Any, example_weights: tf.Tensor | None = None
    ) -> list[LossTerm]:
        return self.inner.auxiliary_losses(auxiliary_loss_stats, example_weights)

    def fixed_point_terms(
        self,
        result: Any,
        padding_mask: tf.Tensor | None,
        example_weights: tf.Tensor | None = None,
    ) -> list[LossTerm]:
        if result.last_residual is None:
            return []
        weight, cost = self.fixed_point_loss_weight, result.last_residual
        return [state_layer.ponder_term(cost, weight, padding_mask, example_weights)]

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        """Compute all positions. See `StateLayer.forward`.

        Returns:
            `StackOutput`.

        Raises:
            ValueError: if the layer does not support `inputs.num_steps`. See `check_steps`.
        """
        raise NotImplementedError

    @property
    def rule(self) -> halting.Rule | None:
        """The `halting.Rule` of an adaptive recurrence. None for other depth layers."""
        return None

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        """Return an empty cache for `extend`. `size` also specifies the number of steps."""
        steps = size.num_steps or self.num_segments * self.num_steps
        widths = self._cache_widths()
        return tuple(cache_lib.start(part, size, steps, self.compute_dtype) for part in widths)

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        """Return a cache with columns copied from another cache.

        Args:
            cache: the other cache, returned by `start_cache` or `extend`.
            size: `CacheSize` of `cache`.
            order: int32 [B, C']. For each new column, the index of the old column to copy. If
                `cache_order_matters` is True, the caller must not move existing columns.
        """
        return tuple(
            cache_lib.gather_columns(part, widths, size, order)
            for part, widths in zip(cache, self._cache_widths(), strict=True)
        )

    def _cache_widths(self) -> tuple:
        """Return the widths of the stores of each layer and of the signals.

        See `cache.start`.
        """
        signal_widths = () if self.timing is None else (self.timing.cache_widths(),)
        return (*self.block.cache_widths(), *signal_widths)

    @property
    def cache_order_matters(self) -> bool:
        """Whether the result of reading the cache depends on the order of its columns."""
        signals_matter = self.timing is not None and bool(self.timing.cache_widths())
        return signals_matter or self.inner.cache_order_matters

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        """Compute the columns of a window, which attend to earlier columns in the cache.

        Args:
            state: float tensor [B, Q, D], the state of the window's columns before the first step.
            cache: the cache that `start_cache` or the previous `extend` returned.
            window: `Window` of Q columns.
            memory: as in `forward`.

        Returns:
            (output [B, Q, D], cache).
        """
        raise NotImplementedError

    def check_steps(self, num_steps: int | None) -> None:
        """Check the number of steps of a forward pass.

        Args:
            num_steps: int, the number of steps. In adaptive models, it is the maximum number. None
                selects the number for which the model was made, which is always valid.

        Raises:
            ValueError: if the depth layer has no recurrence. Also if the layer has learned weights
                for each step, and these weights do not allow `num_steps` steps.
        """
        if self.timing is not None:
            self.timing.check_steps(num_steps)
        elif num_steps is not None:
            raise ValueError(
                f"num_steps requires a recurrence in depth. Received: num_steps={num_steps} for a "
                f"{type(self).__name__}."
            )

    def _present_layers(self):
        """Return the layers of `layer_attributes` that are not None."""
        layers = (getattr(self, name) for name in self.layer_attributes)
        return [layer for layer in layers if layer is not None]


class DepthWrapper(Depth):
    """Wraps another depth layer (`inner`).

    It delegates every method that a subclass does not override.
    """

    @property
    def trains_by_steps(self) -> bool:
        return self.inner.trains_by_steps

    @property
    def num_segments(self) -> int:
        return self.inner.num_segments

    @property
    def rule(self) -> halting.Rule | None:
        return self.inner.rule

    def ponder_terms(
        self,
        result: Any,
        padding_mask: tf.Tensor | None,
        example_weights: tf.Tensor | None = None,
    ) -> list[LossTerm]:
        return self.inner.ponder_terms(result, padding_mask, example_weights)

    def fixed_point_terms(
        self,
        result: Any,
        padding_mask: tf.Tensor | None,
        example_weights: tf.Tensor | None = None,
    ) -> list[LossTerm]:
        return self.inner.fixed_point_terms(result, padding_mask, example_weights)

    def check_steps(self, num_steps: int | None) -> None:
        self.inner.check_steps(num_steps)

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        return self.inner.start_cache(size)

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        return self.inner.move_columns(cache, size, order)
