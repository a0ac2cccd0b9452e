"""Writes the tables for docs/t2t.md from the declarations of hparams and flags.

python scripts/t2t_tables.py            writes docs/t2t_hparams.md, t2t_flags.md and t2t_names.md
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCS = os.path.join(ROOT, "docs")
sys.path.insert(0, ROOT)

from ut_keras import hparam_schema, models  # noqa: E402
from ut_keras.bin import flags  # noqa: E402
from ut_keras.files import whole_file  # noqa: E402
from ut_keras.hparam_schema import removed_fields, saved  # noqa: E402
from ut_keras.hparam_schema.basic import BasicHParams  # noqa: E402
from ut_keras.hparam_schema.field import specs  # noqa: E402
from ut_keras.hparams import registry as set_registry  # noqa: E402
from ut_keras.problems import problem as problem_registry  # noqa: E402

# Dict from the prefix of a field's name to the reason why values are not supported. The first
# matching prefix is used.
REASONS = {
    "scheduled_sampling_": "training uses teacher forcing only",
    "mixed_precision_": "use activation_dtype=bfloat16, which needs no loss scaling",
    "gpu_automatic_mixed_precision": "set activation_dtype to bfloat16",
    "weight_dtype": "weights are float32 under any activation_dtype",
    "activation_dtype": "float16 needs loss scaling, bfloat16 does not",
    "num_area_layers": "there is no area attention",
    "max_area_": "there is no area attention",
    "memory_height": "there is no area attention",
    "area_": "there is no area attention",
    "split_": "examples are not split into chunks",
    "prepend_mode": "only the transformer supports it, see its section below",
    "mlperf_mode": "there is no MLPerf logging",
    "pretrained_model_dir": "weights of other runs are not used",
    "warm_start_from_second": "weights of other runs are not used",
}
NOT_YET = "not supported yet"
OURS = (
    "act_halted_state",
    "act_force_final_remainder",
    "act_mask_padding",
    "attention_block_size",
    "class_label_pooling",
    "conv_mask_padding",
    "copy_gate",
    "copy_gate_activation",
    "copy_gate_dropout",
    "curriculum_accuracy",
    "curriculum_length_step",
    "curriculum_start_length",
    "curriculum_updates",
    "diagonal_final_state",
    "diagonal_shift_axis",
    "embedding_dropout",
    "ffn_postprocess_sequence",
    "geometric_drop_keys",
    "geometric_normalize_score",
    "num_rec_steps_sampling",
    "recompute_grad",
    "recurrence_backprop_steps",
    "recurrence_fixed_point_loss_weight",
    "recurrence_initial_state",
    "recurrence_input_injection",
    "recurrence_residual_scale",
    "recurrence_segments",
    "recurrence_supervised_every",
    "ponder_net_prior",
    "pos_randomized_range",
    "ponder_net_output",
    "sentence_mask_stddev",
    "trim_stories",
    "attention_mask_padding",
    "relative_mask_future",
)
OUR_VALUES = {
    "act_type": ("ponder_net", "stick_breaking", "convergence", "q_halt"),
    "ffn_layer": ("sigma_moe(num_experts=16, k=4)", "swiglu"),
    "norm_type": ("rms",),
    "pos": ("randomized", "coupled", "rotary"),
    "self_attention_type": ("dot_product_relative_xl", "geometric"),
}


def hparams_table():
    """Return the text of t2t_hparams.md."""
    basic, transformer = specs(BasicHParams), specs(hparam_schema.TransformerHParams)
    universal = specs(hparam_schema.UniversalTransformerHParams)
    lstm, neural_gpu = specs(hparam_schema.LSTMHParams), specs(hparam_schema.NeuralGPUHParams)
    sections = (
        ("All models", basic),
        ("Transformer", _new_or_changed(transformer, basic)),
        ("Universal Transformer", _new_or_changed(universal, transformer)),
        ("LSTMs, in addition to those of all models", _new_or_changed(lstm, basic)),
        ("Neural GPUs, in addition to those of all models", _new_or_changed(neural_gpu, basic)),
    )
    lines = [
        "# T2T's hparams",
        "",
        "This page lists every hparam, its default, and the values that ut_keras supports. The",
        "last column of the tables has these entries:",
        "",
        "- **same**: every value works as in T2T.",
        "- **same for** some values: only these values work.",
        "- **others not supported**: a value that is neither the default nor in the row raises an",
        "  error that names the hparam.",
        "- **no effect**: ut_keras accepts every value and does not use it. If `--hparams` changes",
        "  the value, the trainer prints a note with the reason.",
        "- **added**: T2T does not have the hparam or the value.",
        "",
        "Every model has the hparams of the first section. The Universal Transformer also has",
        "those of the Transformer. The later sections list only the hparams that a model adds or",
        "changes.",
        "`scripts/t2t_tables.py` writes this page from the declarations.",
    ]
    for title, fields in sections:
        lines += ["", f"## {title}", "", "| hparam | default | in ut_keras |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {_code(spec.default)} | {_here(spec)} |" for name, spec in fields.items()
        ]
    ignored = ", ".join(f"`{name}`" for name in sorted(removed_fields.T2T_BOOKKEEPING))
    tables = ", ".join(f"`{name}`" for name in sorted(saved.T2T_FUNCTION_TABLES))
    lines += [
        "",
        "## Only in T2T's hparams.json",
        "",
        f"- Ignored, because they repeat the command line: {ignored}.",
        "- Must be empty, because an hparam cannot replace a function. A value raises an error:",
        f"  {tables}.",
        "- Fields that T2T 1.15 does not have, or has only in models that ut_keras does not have.",
        "  In hparams.json, the values in the second column have no effect. Any other value raises",
        "  an error. In `--hparams`, each of these fields raises an error:",
        "",
        "| hparam | values without effect | in ut_keras |",
        "|---|---|---|",
    ]
    for name, (harmless, remedy) in sorted(removed_fields.REMOVED.items()):
        values = "any" if removed_fields.ANY in harmless else ", ".join(map(_code, harmless))
        lines.append(f"| `{name}` | {values or 'none'} | {remedy} |")
    return "\n".join(lines) + "\n"


def flags_table():
    """Return the text of t2t_flags.md."""
    lines = [
        "# T2T's flags",
        "",
        "This page lists every flag of the commands, under the names of T2T's commands. An",
        "unsupported flag may have T2T's default. Any other value raises an error. In T2T and in",
        "ut_keras, `--hp_NAME=value` means the same as `--hparams=NAME=value`.",
        "`scripts/t2t_tables.py` writes this page from the declarations.",
    ]
    tables = {
        "t2t-trainer": flags.TRAINER,
        "t2t-datagen": flags.DATAGEN,
        "t2t-decoder, in addition to those of t2t-trainer": flags.DECODER_OWN,
        "t2t-avg-checkpoints": flags.AVG_CHECKPOINTS,
        "t2t-exporter, in addition to those of t2t-trainer": flags.EXPORTER_OWN,
        "t2t-query-server": flags.QUERY_SERVER,
        "t2t-bleu": flags.BLEU,
    }
    for title, table in tables.items():
        lines += ["", f"## {title}", "", "| flag | in ut_keras |", "|---|---|"]
        for flag in sorted(table, key=lambda flag: bool(flag.unsupported)):
            text = f"not supported: {flag.unsupported}" if flag.unsupported else flag.help
            lines.append(f"| `--{flag.name}` | {_cell(text)} |")
    return "\n".join(lines) + "\n"


# T2T's commands for which ut_keras has no command of the same name.
COMMANDS = {
    "t2t-avg-all": "`t2t-avg-all` averages at every new checkpoint. "
    "`ut-avg-checkpoints --prefix=RUN/ --num_last_checkpoints=N` averages once. "
    "`--moving_average_decay` of the trainer averages during training",
    "t2t-eval": "`python trainer.py --schedule=evaluate`",
    "t2t-insights-server": "`ut-visualize` draws the same information as pictures",
    "t2t-make-tf-configs": "a launcher sets `TF_CONFIG`: [training.md](training.md)",
    "t2t-translate-all": "`--schedule=train_eval_and_decode`, or a loop over `ut-decoder "
    "--checkpoint_path=…`",
}


def names_table():
    """Return the text of t2t_names.md."""
    sections = {
        "HParams sets": set_registry.SETS.unsupported(),
        "Models": models.unsupported(),
        "Problems": problem_registry.REGISTRY.unsupported(),
        "Schedules": flags.OTHER_SCHEDULES,
        "Commands": COMMANDS,
    }
    lines = [
        "# T2T's names that are not supported",
        "",
        "This page lists T2T's names that ut_keras does not have, with the alternative or the",
        "reason. A command that receives such a name raises an error with the same text. In a",
        "name, `*` stands for any text. If a supported name fits such a pattern, it works.",
        "`--registry_help` lists the supported names. `scripts/t2t_tables.py` writes this page.",
    ]
    for title, reasons in sections.items():
        lines += ["", f"## {title}", "", "| name | in ut_keras |", "|---|---|"]
        lines += [f"| `{name}` | {_cell(reason)} |" for name, reason in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


FILES = {
    "t2t_hparams.md": hparams_table,
    "t2t_flags.md": flags_table,
    "t2t_names.md": names_table,
}


def reason(name):
    """Return the reason why values of a field are not supported, and the matching prefix."""
    for beginning, words in REASONS.items():
        if name.startswith(beginning):
            return words, beginning
    return NOT_YET, None


def _new_or_changed(fields, before):
    return {
        name: spec
        for name, spec in fields.items()
        if name not in before
        or (spec.default, spec.facts) != (before[name].default, before[name].facts)
    }


def _here(spec):
    if spec.name in OURS:
        return "added; the default gives T2T's behavior"
    if spec.facts.ignored:
        return f"no effect: {spec.facts.ignored}"
    ours = OUR_VALUES.get(spec.name, ())
    also = f"; added: {', '.join(map(_code, ours))}" if ours else ""
    if spec.facts.supported is None:
        return f"same{also}"
    values = [value for value in spec.supported_values if value not in ours]
    same = f"same for {', '.join(map(_code, values))}; " if len(values) > 1 else ""
    why = f"use `{spec.facts.instead}`" if spec.facts.instead else reason(spec.name)[0]
    return f"{same}others {why if why == NOT_YET else f'not supported: {why}'}{also}"


def _code(value):
    return f"`{_cell(repr(value))}`"


def _cell(text):
    return text.replace("|", "\\|")


def main():
    for filename, text in FILES.items():
        page = text()
        with whole_file.writing(os.path.join(DOCS, filename)) as file:
            file.write(page)


if __name__ == "__main__":
    main()
