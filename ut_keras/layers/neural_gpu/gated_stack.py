"""The recurrence of the Neural GPU, which takes one step per token of the source."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.layers.basic import dense, dropout
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs
from ut_keras.layers.depth import state_layer
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.neural_gpu import conv_gru


class LoopState(NamedTuple):
    """The state of the loop over steps."""

    step: tf.Tensor  # int32 scalar, the number of finished steps
    state: tf.Tensor  # [B, S, D]
    first: Any  # [B, S, D], the state after the first step. Empty unless `keeps_first` is True.
    # float32 [B], the sum of the saturation over the counted steps. Empty if the units return no
    # saturation.
    saturation: Any
    num_steps: tf.Tensor  # float32 [B], the number of counted steps


class UnitStack(dense.WithKernels, state_layer.StateLayer):
    """Base class of stacks that apply the same gated convolutions once per token.

    A subclass makes a unit in `_make_unit` and implements `forward` with `_run`.

    Args:
        num_layers: int L. Number of units that one step applies.
        hidden_size: int D.
        kernel_height, kernel_width: int. Size of the kernels. See `Convolution`.
        mask_padding: bool. Whether the state stays 0 at padding. As in T2T, the default is False.
            If False, padding after a sequence gets a state, and the convolutions of later steps
            read this state.
        dropout_rate: float in [0, 1).
        kernel_initializer: Keras initializer.

    Call arguments: as `StateLayer`, without memory and attention masks.
    """

    keeps_first: Any = False  # whether `_run` keeps the state after the first step
    has_saturation = False  # whether the units return a saturation

    def __init__(
        self,
        num_layers: int,
        hidden_size: int,
        kernel_height: int = 3,
        kernel_width: int = 1,
        mask_padding: bool = False,
        dropout_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.hidden_size = hidden_size
        self.kernel_height = kernel_height
        self.kernel_width = kernel_width
        self.mask_padding = mask_padding
        self.dropout_rate = dropout_rate

    def build(self, state_shape: Shape) -> None:
        arguments = {
            "hidden_size": self.hidden_size,
            "kernel_height": self.kernel_height,
            "kernel_width": self.kernel_width,
            "mask_padding": self.mask_padding,
            "kernel_initializer": self.kernel_initializer,
            "dtype": self.dtype_policy,
        }
        self.cells = tuple(self._make_unit(number, arguments) for number in range(self.num_layers))
        for unit in self.cells:
            unit.build((None, None, self.hidden_size))

    def _make_unit(self, number, arguments):
        raise NotImplementedError

    def _run(self, state, inputs):
        """Return the last `LoopState`."""
        state = tf.cast(state, self.compute_dtype)
        size, length = tf.unstack(tf.shape(state)[:2])
        real = inputs.padding_mask
        real = tf.ones([size, length], tf.bool) if real is None else tf.convert_to_tensor(real)
        zeros = tf.zeros([size])
        first = state if self.keeps_first else ()
        saturation = zeros if self.has_saturation else ()
        (last,) = tf.while_loop(
            lambda loop: loop.step < length,
            lambda loop: (self._take_step(loop, real, inputs.training),),
            (LoopState(tf.constant(0), state, first, saturation, zeros),),
            maximum_iterations=length if state.shape[1] is None else state.shape[1],
        )
        return last

    def _take_step(self, loop, real, training):
        x, saturation = self._apply_units(loop.state, real, training)
        is_real = tf.gather(real, loop.step, axis=1)  # [B]
        state = tf.where(is_real[:, tf.newaxis, tf.newaxis], x, loop.state)
        state = tf.ensure_shape(state, loop.state.shape)
        # As in T2T, without `mask_padding` the loss counts the saturation of every step, even if
        # the step leaves the state of the example unchanged.
        counts = tf.cast(is_real, tf.float32) if self.mask_padding else tf.ones_like(loop.num_steps)
        return LoopState(
            loop.step + 1,
            state,
            tf.where(loop.step == 0, state, loop.first) if self.keeps_first else (),
            loop.saturation + counts * saturation if self.has_saturation else (),
            loop.num_steps + counts,
        )

    def _apply_units(self, state, real, training):
        """Return (state after one step, saturation of the last unit)."""
        saturation = None
        for unit in self.cells:
            state, saturation = unit(state, padding_mask=real, training=training)
        return state, saturation


@keras.saving.register_keras_serializable(package="ut_keras")
class NeuralGPUStack(UnitStack):
    """Applies the same `ConvGRU`s once for each real token of the sequence.

        H_0 = x
        H_t = unit_L(… unit_1(dropout(H_{t-1}))),   t = 1 … S

    The number of steps grows with the length of the sequence, so information from every position
    can reach all other positions. As in T2T, step t leaves the state of an example unchanged if
    token t is padding.

    Arguments: as `UnitStack`. The layer applies dropout to the state before every step.

    Call arguments: as `UnitStack`.

    Returns:
        float tensor [B, S, D]. `forward` returns a `StackOutput`.

    References: Kaiser & Sutskever 2016, Neural GPUs Learn Algorithms; T2T `models/neural_gpu.py`,
        `neural_gpu_body`.
    """

    def build(self, state_shape: Shape) -> None:
        super().build(state_shape)
        self.state_dropout = dropout.sublayer(self)

    def _make_unit(self, number, arguments):
        return conv_gru.ConvGRU(**arguments, name=f"cgru_{number}")

    def _apply_units(self, state, real, training):
        return super()._apply_units(self.state_dropout(state, training=training), real, training)

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        return StackOutput(self._run(state, inputs).state)
