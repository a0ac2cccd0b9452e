"""Flags of earlier T2T versions and of other T2T commands, with alternatives.

`flags` appends these flags to its tables, so that an error about such a flag names the alternative.
"""

_TPU = "create the TPU with Google's tools; then use --use_tpu and --cloud_tpu_name"
_NO_DISTILLATION = "ut_keras does not distill models"
_NO_ATTACK = "ut_keras has no adversarial attacks"

# Flags of t2t-trainer, which t2t-decoder and t2t-exporter also accepted.
TRAINER = {
    "problems": "use --problem; a run has one problem",
    "decode_problem_id": "use --problem; a run has one problem",
    "train_dir": "use --output_dir",
    "model_dir": "use --output_dir",
    "save_checkpoints_steps": "use --local_eval_frequency",
    "decode_interactive": "use ut-decoder --decode_interactive",
    "decode_endless": "use ut-decoder --decode_interactive",
    "decode_from_dataset": "ut-decoder decodes a split if --decode_from_file is absent",
    "identity_output": "ut-decoder always converts ids to texts",
    "eval_print": "metrics.jsonl in --output_dir contains all results",
    "export_dir": "use ut-exporter",
    "experimental_optimize_placement": "tf.distribute places the variables",
    "jax": "ut_keras requires TensorFlow",
    "cloud_tpu": _TPU,
    "cloud_vm_name": _TPU,
    "cloud_delete_on_done": _TPU,
    "cloud_skip_confirmation": _TPU,
    "teacher_dir": _NO_DISTILLATION,
    "student_dir": _NO_DISTILLATION,
    "skip_teacher_training": _NO_DISTILLATION,
    "attack_params_set": _NO_ATTACK,
    "ignore_incorrect": _NO_ATTACK,
    "surrogate_attack": _NO_ATTACK,
    "surrogate_model": _NO_ATTACK,
    "surrogate_hparams_set": _NO_ATTACK,
    "surrogate_output_dir": _NO_ATTACK,
    "pruning_params_set": "ut_keras does not prune weights",
}
DATAGEN = {
    "problems": "use --problem=name,other_name",
    "output_dir": "use --data_dir",
}
# Flags of t2t-translate-all and of early versions of t2t-decoder.
_ONE_BY_ONE = "call the command once per checkpoint, with --checkpoint_path and --decode_to_file"
DECODER = {
    "source": "use --decode_from_file",
    "model_dir": "use --output_dir or --checkpoint_path",
    "translations_dir": _ONE_BY_ONE,
    "min_steps": _ONE_BY_ONE,
    "wait_minutes": _ONE_BY_ONE,
    "decoder_command": _ONE_BY_ONE,
    "decode_endless": "use --decode_interactive",
}
