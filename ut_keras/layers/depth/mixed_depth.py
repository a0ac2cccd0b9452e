"""A recurrence with ordinary layers before and after it."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError, UniversalTransformerHParams
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.layers.depth import depth, stack, step_recording
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.position import timing_signal
from ut_keras.ops.loss_term import LossTerm


@keras.saving.register_keras_serializable(package="ut_keras")
class MixedDepth(depth.DepthWrapper):
    """A recurrence between layers with their own weights (`mix_with_transformer`).

    Args:
        recurrence: a `Recurrence` or `AdaptiveComputationTime`.
        before, after: `LayeredDepth`s or None.
        position: bool. Whether the layer adds a sinusoidal position signal to the inputs of
            `before` and `after`.

    Call arguments and returns: as `StateLayer`.

    References: T2T `universal_transformer_util.universal_transformer_layer`.
    """

    layer_attributes = ("before", "recurrence", "after")

    def __init__(
        self,
        recurrence: depth.Depth,
        before: depth.Depth | None = None,
        after: depth.Depth | None = None,
        position: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.recurrence = recurrence
        self.before = before
        self.after = after
        self.position = position
        self.position_signal = timing_signal.SinusoidPosition(
            name="position", dtype=self.dtype_policy
        )

    def project_memory(self, memory: tf.Tensor, attention_mask: tf.Tensor | None) -> tuple:
        """Concatenate the projections of all parts. See `StateLayer.project_memory`."""
        return tuple(
            projected
            for part in self._present_layers()
            for projected in part.project_memory(memory, attention_mask)
        )

    @property
    def inner(self) -> depth.Depth:
        """The recurrence, to which methods delegate by default."""
        return self.recurrence

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        """Apply all parts. See `Depth.forward`.

        Returns:
            `StackOutput`. It has the attention weights of all layers, in the order in which the
            layers are applied. Ponder times, remainders and steps come from the recurrence. For
            each recorded step, the record contains the output of the layers after the recurrence.
        """
        results, recorded = [], None
        for part, memory in self._split_by_part(inputs.memory):
            part_inputs = inputs._replace(memory=memory)
            if part is not self.recurrence:
                state = self._with_position(state)
                part_inputs = part_inputs._replace(num_steps=None, carried=None)
                recorded = self._outputs_after(part, recorded, part_inputs)
            result = part.forward(state, part_inputs)
            results.append(result)
            state = result.output
            if part is self.recurrence:
                recorded = result.recorded
        return results[self._present_layers().index(self.recurrence)]._replace(
            output=state,
            recorded=recorded,
            attention_weights=_concatenated(result.attention_weights for result in results),
            memory_attention_weights=_concatenated(
                result.memory_attention_weights for result in results
            ),
            auxiliary_loss_stats=tuple(
                stats for result in results for stats in result.auxiliary_loss_stats
            ),
        )

    def auxiliary_losses(
        self, auxiliary_loss_stats: Any, example_weights: tf.Tensor | None = None
    ) -> list[LossTerm]:
        """Return the losses of all parts. See `StateLayer.auxiliary_losses`."""
        losses: list[LossTerm] = []
        for part, stats in self._split_by_part(auxiliary_loss_stats):
            losses.extend(part.auxiliary_losses(stats, example_weights))
        return losses

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        """Return a tuple with the cache of each part. See `Depth.start_cache`."""
        once = size._replace(num_steps=None)  # only the recurrence takes several steps
        return tuple(
            part.start_cache(size if part is self.recurrence else once)
            for part in self._present_layers()
        )

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        parts = zip(self._present_layers(), cache, strict=True)
        return tuple(part.move_columns(stores, size, order) for part, stores in parts)

    @property
    def cache_order_matters(self) -> bool:
        return any(part.cache_order_matters for part in self._present_layers())

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        extended = []
        for (part, part_memory), stores in zip(self._split_by_part(memory), cache, strict=True):
            if part is not self.recurrence:
                state = self._with_position(state, window.positions)
            state, stores = part.extend(state, stores, window, part_memory)
            extended.append(stores)
        return state, tuple(extended)

    def _outputs_after(self, part, recorded, inputs):
        """Apply `part` to the recorded output of each step, and return the new record."""
        # The masks and the memory in `inputs` have no axis of steps, so `part` reads one step at a
        # time.
        inputs = inputs._replace(record_attention=False, record_steps=False)
        return step_recording.map_outputs(
            recorded, lambda x: part.forward(self._with_position(x), inputs).output
        )

    def _split_by_part(self, layer_values):
        """Return a list of (part, values of its layers).

        Args:
            layer_values: tuple with one value per layer. None or (): all parts get this argument.
        """
        pairs, start = [], 0
        for part in self._present_layers():
            end = start + len(part.block.layers)
            values = layer_values[start:end] if layer_values else layer_values
            pairs.append((part, values))
            start = end
        return pairs

    def _with_position(self, x, positions=None):
        return self.position_signal(x, positions) if self.position else x


def _concatenated(weights):
    """Concatenate weights [N_1, ...], [N_2, ...], … to [N, ...].

    Return None if the parts have recorded no weights.
    """
    weights = list(weights)
    return None if weights[0] is None else tf.concat(weights, axis=0)


def make(hp: UniversalTransformerHParams, side: parts.Side, recurrence: depth.Depth) -> MixedDepth:
    """Return the recurrence with the other layers that `mix_with_transformer` selects.

    Args:
        hp, side: as for `parts.recurrences`.
        recurrence: a new recurrence. The function changes its name to "recurrence".

    Raises:
        HParamError: if the training loss uses the states of several steps, and layers follow the
            recurrence. These layers would read only the last state.
    """
    mixed = hp.mix_with_transformer or ""
    if "after_ut" in mixed and side.predicts and recurrence.trains_by_steps:
        raise HParamError(
            "mix_with_transformer cannot contain 'after_ut' if the training loss uses several "
            "steps (recurrence_supervised_every, act_type='ponder_net' or act_type='q_halt'). "
            f"Received: mix_with_transformer={mixed!r}."
        )
    recurrence.name = "recurrence"  # "depth" is the name of the `MixedDepth`
    dtype = from_hparams.dtype_policy(hp)

    def make_layers(where):
        if f"{where}_ut" not in mixed:
            return None
        block = stack.make_block(hp, side, hp.num_mixedin_layers, f"{where}_ut_layer")
        return stack.make_layered_depth(hp, block, where)

    return MixedDepth(
        recurrence,
        make_layers("before"),
        make_layers("after"),
        position=hp.add_position_timing_signal,
        name="depth",
        dtype=dtype,
    )
