"""Keys of T2T's hparams.json that are no hyperparameters of T2T 1.15: which may be there.

T2T 1.15 ignores what older 1.x wrote. Here a value that asked for something else is refused by its
name.
"""

from collections.abc import Mapping
from typing import Any

from ut_keras.hparam.field import HParamError, specs

# What the command line said, ...
T2T_BOOKKEEPING = frozenset(
    {
        "data_dir",
        "decode_from_file",
        "eval_freq_in_steps",
        "eval_steps",
        "eval_timeout_mins",
        "mode",
        "model_dir",
        "schedule",
        "std_server_protocol",
        "train_steps",
        "warm_start_from",
    }
)
# ... and tables from feature to function, empty unless somebody replaced a function in code.
T2T_FUNCTION_TABLES = frozenset({"bottom", "loss", "name", "top", "weights_fn"})

_ANY = object()

# Fields of older 1.x, with the values that ask for what is done here anyway.
RETIRED = {
    "batching_mantissa_bits": (_ANY,),  # sizes of buckets
    "gru_transformation": (["state_transformation"],),
    "input_modalities": ("default",),
    "inputs_states_combination": ("mh_attention_ffn_add",),
    "layer_norm_epsilon": (1e-6,),
    "lstm_transformation": (["state_transformation"],),
    "modality": ({}, "{}"),
    "multiproblem_class_loss_multiplier": (0.0,),
    "prepend_inputs_to_targets": (False,),
    "problem_choice": (_ANY,),  # between several problems
    "symbol_modality_skip_top": (False,),
    "target_modality": ("default",),
    "tpu_batch_size_per_shard": (_ANY,),
    "use_eager_mode": (_ANY,),
    "use_interleaved_data_reading": (_ANY,),
    "use_tpu": (_ANY,),
}


def modernize(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as T2T 1.15 would have written them.

    Args:
        cls: the hparams' class.
        values: dict from name to value, the content of a hparams.json.
    Returns:
        dict: without the retired fields; 0 and 1 are a bool where the field has become one, and
        None where it was the default is the default of now.
    Raises:
        HParamError: if a retired field asks for what is not done here.
    """
    known = specs(cls)
    modern = {}
    for name, value in values.items():
        if name in RETIRED and name not in known:
            _check_changes_nothing(name, value)
        elif name in known and known[name].kind is bool and type(value) is int and value in (0, 1):
            modern[name] = bool(value)
        elif name == "optimizer_multistep_accumulate_steps" and value is None:
            modern[name] = known[name].default
        else:
            modern[name] = value
    return modern


def _check_changes_nothing(name, value):
    harmless = RETIRED[name]
    if _ANY not in harmless and value not in harmless:
        raise HParamError(
            f"{name}, which T2T 1.15 has no more, must be {' or '.join(map(repr, harmless))}. "
            f"Received: {name}={value!r}."
        )
