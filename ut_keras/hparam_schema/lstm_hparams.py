"""The hyperparameters of the LSTM baselines.

The names and defaults are those of T2T's `models/lstm.py`. The comment "Added" marks a field that
T2T does not have.
"""

import dataclasses
from typing import Literal

from ut_keras.hparam_schema import ignored_fields
from ut_keras.hparam_schema.basic import BasicHParams
from ut_keras.hparam_schema.field import POSITIVE, RATE, field, training


@dataclasses.dataclass(frozen=True, kw_only=True)
class LSTMHParams(ignored_fields.LSTMIgnoredFields, BasicHParams):
    """Hyperparameters of the LSTM models, such as `lstm_seq2seq_attention`."""

    dropout: float = training(0.2, RATE)  # dropout of the input of each layer, at every position

    # --- Attention of lstm_seq2seq_attention* ---------------------------------------------------
    attention_mechanism: Literal["bahdanau", "luong"] = field("bahdanau", architecture=True)
    attention_layer_size: int = field(128, POSITIVE, architecture=True)
    num_heads: int = field(1, POSITIVE, architecture=True)
    # Whether the output is the attention vector instead of the output of the last LSTM layer.
    output_attention: bool = field(True, architecture=True)
    # Added: whether the padding of the inputs is masked. T2T's model attends to padding.
    attention_mask_padding: bool = field(False)
