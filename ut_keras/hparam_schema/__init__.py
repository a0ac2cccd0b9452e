"""Hyperparameters (hparams): typed dataclasses with T2T's names and defaults.

The dataclasses are frozen. Importing this package does not import TensorFlow.

    hp = hparam_schema.UniversalTransformerHParams(recurrence_type="act").override("hidden_size=64")
    hparam_schema.save(hp, "hparams.json"); hparam_schema.load("hparams.json")

The module `field` has the functions that declare a hyperparameter. The modules `basic`,
`transformer_hparams`, `lstm_hparams` and `neural_gpu_hparams` declare the hyperparameters that have
an effect. The module `ignored_fields` declares T2T's other hyperparameters.
"""

from ut_keras.hparam_schema.basic import BasicHParams
from ut_keras.hparam_schema.changes import check_same_architecture
from ut_keras.hparam_schema.field import HParamError, field
from ut_keras.hparam_schema.lstm_hparams import LSTMHParams
from ut_keras.hparam_schema.neural_gpu_hparams import NeuralGPUHParams
from ut_keras.hparam_schema.saved import classes, for_t2t_model, from_dict, load, register, save
from ut_keras.hparam_schema.transformer_hparams import (
    TransformerHParams,
    UniversalTransformerHParams,
)

__all__ = [
    "BasicHParams",
    "HParamError",
    "LSTMHParams",
    "NeuralGPUHParams",
    "TransformerHParams",
    "UniversalTransformerHParams",
    "check_same_architecture",
    "classes",
    "field",
    "for_t2t_model",
    "from_dict",
    "load",
    "register",
    "save",
]
