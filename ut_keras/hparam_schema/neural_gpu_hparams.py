"""The hyperparameters of the Neural GPU.

Names and defaults are T2T's (`models/neural_gpu.py`), except for the added fields.
"""

import dataclasses
from typing import Literal

from ut_keras.hparam_schema import ignored_fields
from ut_keras.hparam_schema.basic import BasicHParams
from ut_keras.hparam_schema.field import POSITIVE, RATE, field, training


@dataclasses.dataclass(frozen=True, kw_only=True)
class NeuralGPUHParams(ignored_fields.NeuralGPUIgnoredFields, BasicHParams):
    """Hyperparameters of `neural_gpu` and `diagonal_neural_gpu`."""

    # Applied to the state of `neural_gpu`, or to the candidates in a unit of `diagonal_neural_gpu`.
    dropout: float = training(0.2, RATE)
    kernel_height: int = field(3, POSITIVE, architecture=True)  # positions that a convolution reads
    kernel_width: int = field(1, POSITIVE, architecture=True)  # the sequence has width 1
    # Added: keeps the state at 0 at padding. In T2T's models, padding changes the output.
    conv_mask_padding: bool = field(False)
    # Added, for diagonal_neural_gpu: the step whose state is the output. T2T returns the first one.
    diagonal_final_state: Literal["first", "last"] = field("first")
    # Added, for diagonal_neural_gpu: the axis along which channels are shifted. T2T shifts along
    # the width, which is 1, so that the shifted channels are 0.
    diagonal_shift_axis: Literal["width", "length"] = field("width")
