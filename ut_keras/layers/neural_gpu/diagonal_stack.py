"""The recurrence of the improved Neural GPU."""

from typing import Any, Literal

import keras
import tensorflow as tf

from ut_keras.layers.basic.layer import check_choice
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.neural_gpu import diagonal_conv_gru, gated_stack
from ut_keras.ops.loss_term import LossTerm


@keras.saving.register_keras_serializable(package="ut_keras")
class DiagonalNeuralGPUStack(gated_stack.UnitStack):
    """Applies the same `DiagonalConvGRU`s once for each real token.

    The layer penalizes saturated gates. The auxiliary loss is `2 · mean(saturation)` over steps and
    examples. As in T2T, the loss includes only the saturation of the last unit of a step.

    Args:
        num_layers, hidden_size, kernel_height, kernel_width, mask_padding: as for `UnitStack`. With
            `mask_padding`, the loss excludes padding, and the steps after the last token of an
            example.
        dropout_rate: float in [0, 1). Dropout of the candidates of the units.
        final_state: "first" or "last". "first" returns the state after the first step, as T2T does.
            T2T selects this state by mistake. "last" returns the state after the last step, as in
            the paper.
        shift_axis: "width" or "length". See `DiagonalConvGRU`.
        **kwargs: the arguments of `UnitStack`.

    Call arguments: as `UnitStack`.

    Returns:
        float tensor [B, S, D]. `forward` returns a `StackOutput`. Its `auxiliary_loss_stats` is the
        mean saturation of each example, float32 [B].

    Raises:
        ValueError: if the value of `final_state` or `shift_axis` is not listed above.

    References: Freivalds & Liepins 2017, Improving the Neural GPU Architecture for Algorithm
        Learning; T2T `models/neural_gpu.py`, `diagonal_neural_gpu`.
    """

    has_saturation = True

    def __init__(
        self,
        num_layers: int,
        hidden_size: int,
        kernel_height: int = 3,
        kernel_width: int = 1,
        mask_padding: bool = False,
        dropout_rate: float = 0.0,
        final_state: Literal["first", "last"] = "first",
        shift_axis: Literal["width", "length"] = "width",
        **kwargs: Any,
    ) -> None:
        sizes = (num_layers, hidden_size, kernel_height, kernel_width)
        super().__init__(*sizes, mask_padding, dropout_rate, **kwargs)
        check_choice("final_state", final_state, ("first", "last"))
        check_choice("shift_axis", shift_axis, diagonal_conv_gru.SHIFT_AXES)
        self.final_state = final_state
        self.shift_axis = shift_axis

    @property
    def keeps_first(self) -> bool:
        return self.final_state == "first"

    def _make_unit(self, number, arguments):
        return diagonal_conv_gru.DiagonalConvGRU(
            **arguments,
            shift_axis=self.shift_axis,
            dropout_rate=self.dropout_rate,
            name=f"dcgru_{number}",
        )

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        last = self._run(state, inputs)
        saturation = tf.math.divide_no_nan(last.saturation, last.num_steps)
        output = last.first if self.keeps_first else last.state
        return StackOutput(output, auxiliary_loss_stats=(saturation,))

    def auxiliary_losses(
        self, auxiliary_loss_stats: Any, example_weights: tf.Tensor | None = None
    ) -> list[LossTerm]:
        (saturation,) = auxiliary_loss_stats
        weights = tf.ones_like(saturation) if example_weights is None else example_weights
        return [LossTerm(2.0 * tf.reduce_sum(weights * saturation), tf.reduce_sum(weights))]
