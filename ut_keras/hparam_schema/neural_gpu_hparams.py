"""The hyperparameters of the Neural GPU.

The names and defaults are those of T2T's `models/neural_gpu.py`. The comment "Added" marks a field
that T2T does not have.
"""

import dataclasses
from typing import Literal

from ut_keras.hparam_schema import ignored_fields
from ut_keras.hparam_schema.basic import BasicHParams
from ut_keras.hparam_schema.field import POSITIVE, RATE, field, training


@dataclasses.dataclass(frozen=True, kw_only=True)
class NeuralGPUHParams(ignored_fields.NeuralGPUIgnoredFields, BasicHParams):
    """Hyperparameters of `neural_gpu` and `diagonal_neural_gpu`."""

    # `neural_gpu` applies dropout to its state. `diagonal_neural_gpu` applies it to the candidates
    # in a unit.
    dropout: float = training(0.2, RATE)
    # Number of positions that a convolution reads.
    kernel_height: int = field(3, POSITIVE, architecture=True)
    kernel_width: int = field(1, POSITIVE, architecture=True)  # sequences have the width 1
    # Added: whether the state at padding stays 0. In T2T's models, padding changes the output.
    conv_mask_padding: bool = field(False)
    # Added, for diagonal_neural_gpu: the step whose state is the output. T2T returns the state of
    # the first step.
    diagonal_final_state: Literal["first", "last"] = field("first")
    # Added, for diagonal_neural_gpu: the axis along which channels are shifted. T2T shifts them
    # along the width. The width is 1, so the shifted channels are 0.
    diagonal_shift_axis: Literal["width", "length"] = field("width")
