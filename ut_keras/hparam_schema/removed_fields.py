"""Names in old T2T files and commands that are not hparams, with remedies.

T2T removed most of these fields in its versions 1.1 to 1.13. T2T 1.15 has the others only in sets
that ut_keras does not have. Command lines, hparams.json files and packages contain them.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from ut_keras.registry import unknown_name_message

# Errors about the unknown name of an hparam contain these sentences.
HOW_TO_LIST = "docs/t2t_hparams.md lists all names. In Python, print hp.to_dict()."

ANY = object()


class Removed(NamedTuple):
    """A field of T2T that ut_keras does not have."""

    harmless: tuple[Any, ...]  # the values that select the behavior of ut_keras
    remedy: str  # what to do, a part of a sentence


_MODALITY = "omit it; the problem determines whether a feature is text or a class"
_ONLY_STATE = "omit it; ut_keras transforms only the state"
_ALIGNMENTS = "omit it; ut_keras does not train the attention on alignments"
_MEMORY = "omit it; ut_keras has no attention with a memory"

REMOVED = {
    "attn_vec_size": Removed((), "use attention_layer_size"),
    # This field affects only the sizes of buckets.
    "batching_mantissa_bits": Removed((ANY,), "use min_length_bucket and length_bucket_step"),
    "expected_attention_loss_multiplier": Removed((), _ALIGNMENTS),
    "expected_attention_loss_type": Removed((), _ALIGNMENTS),
    "gru_transformation": Removed((["state_transformation"],), _ONLY_STATE),
    "input_modalities": Removed(("default",), _MODALITY),
    "inputs_states_combination": Removed(
        ("mh_attention_ffn_add",), "omit it; the transition always follows the attention"
    ),
    "layer_norm_epsilon": Removed((1e-6,), "use norm_epsilon"),
    "lstm_transformation": Removed((["state_transformation"],), _ONLY_STATE),
    "memory_type": Removed((), _MEMORY),
    "modality": Removed(({}, "{}"), _MODALITY),
    "multiproblem_class_loss_multiplier": Removed(
        (0.0,), "use multiproblem_reweight_label_loss and multiproblem_label_weight"
    ),
    "num_memory_items": Removed((), _MEMORY),
    "prepend_inputs_to_targets": Removed((False,), "use prepend_mode"),
    # This field affects only runs with several problems.
    "problem_choice": Removed(
        (ANY,), "omit it; a package can combine problems with multi_problem.MultiProblem"
    ),
    "recurrent_memory_batch_size": Removed((), _MEMORY),
    "residual_dropout": Removed((), "use layer_prepostprocess_dropout"),
    "symbol_modality_skip_top": Removed(
        (False,), "omit it; the logits always come from the softmax layer"
    ),
    "target_modality": Removed(("default",), _MODALITY),
    "tpu_batch_size_per_shard": Removed((ANY,), "use batch_size"),
    "unconditional": Removed((), _MEMORY),
    "use_eager_mode": Removed((ANY,), "omit it; TensorFlow 2 has no such mode"),
    "use_interleaved_data_reading": Removed((ANY,), "omit it; training shuffles all examples"),
    "use_tpu": Removed((ANY,), "pass the flag --use_tpu"),
}

# Keys of T2T's hparams.json that are not hyperparameters. They repeat flags of the command line.
# T2T 1.15 and ut_keras ignore them in the file.
T2T_BOOKKEEPING = {
    "data_dir": "pass the flag --data_dir",
    "decode_from_file": "pass the flag --decode_from_file to ut-decoder",
    "eval_freq_in_steps": "pass the flag --local_eval_frequency",
    "eval_steps": "pass the flag --eval_steps",
    "eval_timeout_mins": "omit it; no schedule waits for checkpoints of another process",
    "mode": "pass the flag --schedule",
    "model_dir": "pass the flag --output_dir",
    "schedule": "pass the flag --schedule",
    "std_server_protocol": "omit it",
    "train_steps": "pass the flag --train_steps",
    "warm_start_from": "pass the flag --warm_start_from",
}


def unknown_hparam_message(
    name: str, known: Collection[str], kind: str = "", other_kinds: Collection[str] = ()
) -> str:
    """Return the line of an error about an unknown hparam, with a remedy.

    Args:
        name: str, the unknown name.
        known: the names of all hparams.
        kind: str. The class of the hparams.
        other_kinds: the other classes of hparams that have this name.
    """
    remedy = REMOVED[name].remedy if name in REMOVED else T2T_BOOKKEEPING.get(name)
    if remedy:
        return f"{name!r} is not an hparam of ut_keras: {remedy}."
    if other_kinds:
        others = " and ".join(other_kinds)
        return (
            f"{name!r} is not an hparam of {kind}, but of {others}. Use a model and an hparams set "
            "that have this hparam."
        )
    return unknown_name_message("hparam", name, known, HOW_TO_LIST)
