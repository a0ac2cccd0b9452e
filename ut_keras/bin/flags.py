"""Defines the flags of the commands, with T2T's names and defaults.

This module does not import TensorFlow. The tables contain every flag of T2T's commands. Each flag
is supported or has a reason why only its default is accepted.
"""

import dataclasses
import os
from typing import Any

from ut_keras.bin import old_flags
from ut_keras.bin.command_line import AUTO, Flag, auto_or_boolean, path
from ut_keras.hparam_schema import limits
from ut_keras.text import sacre_bleu

_TPU = "it belongs to the TPU runtime of TensorFlow 1; use --use_tpu and --cloud_tpu_name"
_SERVER = "the environment variable TF_CONFIG lists the workers, see docs/training.md"
_CLOUD = "it is for Google's Cloud ML Engine, which no longer exists"
_GRAPH = "it belongs to TensorFlow 1's graphs and sessions"
_SEED: dict[str, Any] = {"least": 0, "most": limits.LARGEST_SEED}
_THREADS: dict[str, Any] = {"least": 0, "most": limits.MOST_THREADS}
_PROCESSES: dict[str, Any] = {"least": 1, "most": limits.MOST_THREADS}
_DEFAULT_ONLY = "only the default is implemented"
_NO_DIR = "it belongs to --translations_dir, which is not supported"
_EXPORT = "use the command ut-exporter"

# The values of --schedule and what each schedule does.
SCHEDULES = {
    "train": "update the weights and write checkpoints",
    "evaluate": "compute the metrics of the newest checkpoint",
    "evaluate_and_decode": "evaluate, and score the decoded outputs",
    "continuous_train_and_eval": "train, and evaluate each checkpoint",
    "train_and_evaluate": "same as continuous_train_and_eval",
    "train_eval_and_decode": "train, evaluate and decode each checkpoint",
}
# The schedules that only T2T has, each with the alternative in ut_keras.
OTHER_SCHEDULES = {
    "continuous_eval": "use train_and_evaluate, or call evaluate again for a newer checkpoint",
    "continuous_eval_on_train_data": (
        "use evaluate, which reads the dev or test split; training prints the loss of the train "
        "split"
    ),
    "continuous_decode": "use ut-decoder or train_eval_and_decode",
    "continuous_decode_on_train_data": "use ut-decoder",
    "continuous_decode_on_eval_data": "use ut-decoder",
    "continuous_decode_from_file": "use ut-decoder --decode_from_file",
    "decode": "use ut-decoder",
    "local_run": "early versions of T2T have this schedule; use train_and_evaluate",
    "run_std_server": "no server is needed: TF_CONFIG lists the workers, see docs/training.md",
    "test": "use --train_steps=1 for a trial run",
}
_SCHEDULES = "; ".join(f"{name}: {what}" for name, what in SCHEDULES.items())

_PROBLEM = Flag("problem", None, "Name of the problem (dataset).", str)
_DATA_DIR = Flag("data_dir", None, "Folder with the generated data (see --generate_data).", path)
_TMP_DIR = Flag(
    "tmp_dir", "/tmp/t2t_datagen", "Folder with raw data: downloads and your own files.", path
)
_USR_DIR = Flag(
    "t2t_usr_dir",
    None,
    "Folder of a Python package to import, which registers your problems, models and hparams sets.",
    path,
)
_REGISTRY_HELP = Flag("registry_help", False, "List problems, models and hparams sets.")


def _unsupported(reason, **defaults):
    """Return flags that accept only T2T's default."""
    return tuple(
        Flag(name, default, type=str if default is None else None, unsupported=reason)
        for name, default in defaults.items()
    )


def _for_errors(alternatives):
    """Return unsupported flags for errors; the command does not parse them.

    Args:
        alternatives: dict from the flag's name to the alternative.
    """
    return tuple(
        Flag(name, None, unsupported=instead, is_only_for_error=True)
        for name, instead in alternatives.items()
    )


# The flags of absl, which T2T's commands use.
_LOG = "use TF_CPP_MIN_LOG_LEVEL for TensorFlow; the command's own log lines are always printed"
_ABSL_FLAGS = (
    *_unsupported("give the flags on the command line: $(cat FILE)", flagfile=""),
    *_unsupported(_LOG, v=0, verbosity=0, logtostderr=False, alsologtostderr=False),
)

DATAGEN = (
    Flag("problem", None, "Names or patterns of problems: name,other_name,algorithmic_*", str),
    _DATA_DIR,
    _TMP_DIR,
    _USR_DIR,
    _REGISTRY_HELP,
    Flag("random_seed", 429459, "The same seed generates the same files.", **_SEED),
    Flag("only_list", False, "List the files that would be generated, and exit."),
    Flag(
        "exclude_problems", "", "Skip problems whose names contain one of these, comma-separated."
    ),
    Flag("task_id", -1, "Write only this file, numbered over all splits; see --only_list."),
    Flag("task_id_start", -1, "First file to write, with --task_id_end."),
    Flag("task_id_end", -1, "End of the files to write (exclusive), with --task_id_start."),
    Flag(
        "num_concurrent_processes",
        None,
        "Number of processes. Default: one per core.",
        int,
        **_PROCESSES,
    ),
    Flag("max_cases", 0, "Write only the first N samples of each split; 0: all.", least=0),
    Flag("inspect", 0, "Print N records as text, and statistics of all records.", least=0),
    *_unsupported("T2T does not support it for registered problems either", num_shards=0),
    *_unsupported(
        "ut_keras has no environment problems",
        env_problem_max_env_steps=0,
        env_problem_batch_size=0,
    ),
    *_ABSL_FLAGS,
    *_for_errors(old_flags.DATAGEN),
)

IMPORT_T2T = (
    Flag(
        "t2t_output_dir", None, "Folder of the T2T run, with hparams.json and a checkpoint.", path
    ),
    Flag("data_dir", None, "Folder with the data, or at least with T2T's vocabulary.", path),
    Flag("problem", None, "Name of the problem. Default: the one in T2T's flags_t2t.txt.", str),
    Flag("model", None, "Name of the model. Default: the one in T2T's flags_t2t.txt.", str),
    Flag("output_dir", None, "Folder to write the ut_keras run to.", path),
    _USR_DIR,
    _REGISTRY_HELP,
)

AVG_CHECKPOINTS = (
    Flag("checkpoints", "", "Comma-separated checkpoints to average."),
    Flag("prefix", "", "Prefix of each checkpoint, such as a folder with its slash.", path),
    Flag("num_last_checkpoints", 0, "Instead: average the newest N in the folder --prefix."),
    Flag("output_path", "/tmp/averaged.ckpt", 'File to write; "-0" is appended, as in T2T.', path),
    Flag(
        "weights_dtype",
        "",
        "float16 halves the file; weights are read as float32.",
        choices=("float16",),
    ),
    # The flags of t2t-avg-all.
    *_unsupported(
        "use --prefix=FOLDER/ --num_last_checkpoints=N, the newest N of a folder",
        model_dir=None,
        n=None,
    ),
    *_unsupported("use --output_path, which names a file", output_dir=None),
    *_unsupported("the command averages once; call it again", min_steps=None, wait_minutes=None),
)

BLEU = (
    Flag("translation", None, "File with the translations, one segment per line.", path),
    Flag("reference", None, "File with the reference translations.", path),
    Flag("bleu_variant", "both", "cased, uncased or both.", choices=("cased", "uncased", "both")),
    Flag("t2t", False, "Compute the score of t2t-bleu instead of sacreBLEU."),
    Flag(
        "language_pair",
        "",
        "SOURCE-TARGET, such as en-zh: use sacreBLEU's tokenizer for the target zh, ja or ko.",
    ),
    Flag(
        "tokenize",
        "",
        "sacreBLEU's tokenizer. Default: the tokenizer for --language_pair, otherwise 13a.",
        choices=sacre_bleu.TOKENIZERS,
    ),
    *_unsupported("BLEU does not need the source; T2T ignores it", source=None),
    *_unsupported("call the command once per file", translations_dir=None),
    *_unsupported(_NO_DIR, event_dir=None, tag_suffix="", min_steps=-1, wait_minutes=0),
    Flag("report_zero", None, type=bool, unsupported=_NO_DIR),
)

# TensorFlow's own limit is close to T2T's default, so the default has no effect.
DEFAULT_MEMORY_FRACTION = 0.95
_MEMORY_FRACTION = Flag(
    "worker_gpu_memory_fraction",
    DEFAULT_MEMORY_FRACTION,
    "Largest share of each GPU's memory, allocated as needed; 0.95: no further limit.",
    least=0,
    most=1,
)
TRAINER = (
    _PROBLEM,
    Flag("model", None, "Name of the model.", str),
    Flag("hparams_set", None, "Named set of hparams. Default: output_dir/hparams.json.", str),
    Flag("hparams", "", "Values to override: \"hidden_size=64,pos=None,norm_type='layer'\"."),
    _DATA_DIR,
    _TMP_DIR,
    Flag("output_dir", "", "Folder of the run: checkpoints, hparams.json, metrics.jsonl.", path),
    Flag("generate_data", False, "Generate the data first, if it does not exist."),
    Flag("schedule", "continuous_train_and_eval", f"What to run. {_SCHEDULES}."),
    Flag("train_steps", 250000, "Total number of updates, including earlier runs.", least=0),
    Flag("eval_steps", 100, "Batches per evaluation; 0 or less: the complete split."),
    Flag("local_eval_frequency", 1000, "Save and evaluate every N updates.", least=1),
    Flag("eval_throttle_seconds", 0, "Minimum seconds between evaluations (T2T: 600).", least=0),
    Flag("eval_use_test_set", False, 'Evaluate and decode the "test" split instead of "dev".'),
    Flag(
        "save_checkpoints_secs",
        0,
        "If above 0: also save every N seconds; --schedule=train then saves only by time.",
        least=0,
    ),
    Flag("keep_checkpoint_max", 20, "Number of newest checkpoints to keep; 0: all.", least=0),
    Flag(
        "random_seed",
        None,
        "Seed of weights, dropout and data order. Default: random.",
        int,
        **_SEED,
    ),
    Flag("decode_hparams", "", 'Decoding options: "beam_size=4,alpha=0.6,extra_length=100,…".'),
    Flag("global_batch_size", None, "Total batch_size of all devices.", int, least=1),
    Flag("worker_gpu", 1, "GPUs per worker; 1: the CPU if there is no GPU.", **_THREADS),
    Flag("worker_wait_secs", 300, "Seconds to wait for the other workers.", least=1),
    Flag("use_tpu", False, "Train on a TPU."),
    Flag(
        "cloud_tpu_name",
        f"{os.environ.get('USER')}-tpu",
        'Name or address of the TPU; "local" on the TPU machine itself.',
    ),
    # docs/training.md describes the following flags.
    Flag("warm_start_from", None, "Run or checkpoint that provides the initial weights.", path),
    Flag(
        "eval_early_stopping_steps",
        None,
        "Stop training after N updates without progress; 0: train for all updates.",
        int,
        least=0,
    ),
    Flag(
        "eval_early_stopping_metric",
        "loss",
        "Metric of metrics.jsonl (such as decode/bleu) for early stopping and OUTPUT_DIR/best; "
        '"step": the last checkpoint is the best.',
    ),
    Flag("eval_early_stopping_metric_delta", 0.1, "Minimum improvement of the metric.", least=0),
    Flag(
        "eval_early_stopping_metric_minimize",
        None,
        "Whether a lower metric is better. Default: depends on the metric (T2T: True).",
        bool,
    ),
    Flag(
        "moving_average_decay",
        0.0,
        "Decay of averaged weights, such as 0.999; evaluate the averages.",
    ),
    Flag("profile", None, "First and last update to profile for TensorBoard: A-B.", str),
    Flag("log_step_count_steps", 100, "Write a TensorBoard point every N updates.", least=1),
    Flag(
        "xla_compile",
        AUTO,
        "Compile the update with XLA; auto: on GPUs, if XLA can compile it (T2T: False).",
        auto_or_boolean,
    ),
    Flag("intra_op_parallelism_threads", 0, "Threads per operation; 0: all cores.", **_THREADS),
    Flag("inter_op_parallelism_threads", 0, "Parallel operations; 0: one per core.", **_THREADS),
    Flag("log_device_placement", False, "Print where each operation runs."),
    Flag("optionally_use_dist_strat", False, "No effect: tf.distribute is always used."),
    # The following flags are for a search, which docs/tuning.md describes.
    Flag("hparams_range", None, "Search this range of hparams instead of training once.", str),
    Flag("autotune_objective", None, "Search: metric of metrics.jsonl to optimize.", str),
    Flag(
        "autotune_maximize",
        None,
        "Search: whether a higher metric is better. Required for losses, errors and the like.",
        bool,
    ),
    Flag(
        "autotune_max_trials",
        10,
        "Search: total number of trials, including earlier ones.",
        least=1,
    ),
    Flag("autotune_parallel_trials", 1, "Search: number of parallel trials.", **_PROCESSES),
    _USR_DIR,
    _REGISTRY_HELP,
    *_unsupported("use --schedule=train_eval_and_decode", eval_run_autoregressive=False),
    *_unsupported(
        _DEFAULT_ONLY, keep_checkpoint_every_n_hours=10000, gpu_automatic_mixed_precision=False
    ),
    *_unsupported("use ut-decoder", decode_from_file="", decode_to_file="", decode_reference=""),
    *_unsupported(_EXPORT, export_saved_model=False, export_saved_model_api_version=1),
    *_unsupported("no schedule waits for checkpoints of another process", eval_timeout_mins=240),
    # Flags for features that exist only in TensorFlow 1.
    *_unsupported(_GRAPH, tfdbg=False, dbgprofile=False, enable_graph_rewriter=False),
    *_unsupported(_GRAPH, use_guarantee_const_getter=False),
    _MEMORY_FRACTION,
    *_unsupported("use --xla_compile", xla_jit_level=-1),
    *_unsupported("use the environment variable CUDA_VISIBLE_DEVICES", gpu_order=""),
    *_unsupported(_SERVER, worker_replicas=1, worker_id=0, worker_job="/job:localhost", master=""),
    *_unsupported(_SERVER, ps_job="/job:ps", ps_gpu=0, ps_replicas=0),
    *_unsupported(_SERVER, sync=False, std_server_protocol="grpc"),
    *_unsupported("training uses the CPU if there is no GPU", locally_shard_to_cpu=False),
    *_unsupported(_TPU, use_tpu_estimator=False, tpu_num_shards=8, tpu_job_name=None),
    *_unsupported(_TPU, tpu_infeed_sleep_secs=None, iterations_per_loop=100),
    *_unsupported(
        _CLOUD, cloud_mlengine=False, cloud_mlengine_master_type=None, **{"job-dir": None}
    ),
    *_ABSL_FLAGS,
    *_for_errors(old_flags.TRAINER),
)


def _merged(own, others):
    """Return the flags of a command, and the flags that only another command has."""
    names = {flag.name for flag in own}
    return (*own, *(flag for flag in others if flag.name not in names))


_NO_TMP_DIR = Flag("tmp_dir", "/tmp/t2t_datagen", "No effect: the command generates no data.", path)
# t2t-decoder also accepts all flags of t2t-trainer.
DECODER_OWN = (
    Flag("problem", None, "Name of the problem. Default: the one in the run's run.json.", str),
    Flag("model", None, "Name of the model. Default: the one in run.json.", str),
    Flag("hparams_set", None, "Named set of hparams. Default: the run's hparams.json.", str),
    Flag("hparams", "", "Values to override, as for the trainer."),
    Flag(
        "data_dir", None, "Folder with the data, or with the vocabulary if the run has none.", path
    ),
    Flag("output_dir", "", "Folder of the run; its newest checkpoint is used.", path),
    Flag("checkpoint_path", None, "Checkpoint to use instead: run/model.ckpt-1000.", path),
    Flag("decode_from_file", "", "File to decode, one input per line.", path),
    Flag("decode_to_file", "", "File to write. Default: a name made from the input file.", path),
    Flag("decode_interactive", False, "Decode typed lines."),
    Flag("score_file", "", "File of source<TAB>target lines to score into --decode_to_file.", path),
    Flag("decode_reference", "", "File of reference translations: print the BLEU.", path),
    Flag("decode_hparams", "", 'Decoding options: "beam_size=4,alpha=0.6,extra_length=100,…".'),
    Flag("eval_use_test_set", False, 'Without a file: decode the "test" split instead of "dev".'),
    Flag("keep_timestamp", False, "Set the output file's time to the checkpoint's time."),
    Flag("random_seed", None, "Seed of sampling, unless --decode_hparams sets one.", int, **_SEED),
    Flag(
        "xla_compile",
        AUTO,
        "Compile the search, or the scoring of --score_file, with XLA; auto: on a GPU, if XLA can "
        "compile it (T2T: False).",
        auto_or_boolean,
    ),
    Flag(
        "intra_op_parallelism_threads",
        1,
        "Threads per operation. 1: each core decodes a part of the batch; 0: each operation uses "
        "all cores.",
        **_THREADS,
    ),
    _NO_TMP_DIR,
    _USR_DIR,
    _REGISTRY_HELP,
    *_unsupported("decoding uses one device", worker_gpu=1),
    *_unsupported(_DEFAULT_ONLY, decode_shards=1),
    *_unsupported("outputs are printed or written to a file", decode_in_memory=False),
    *_unsupported(_GRAPH, disable_grappler_optimizations=False),
    *_for_errors(old_flags.DECODER),
)
_RUNTIME = (
    "intra_op_parallelism_threads",
    "inter_op_parallelism_threads",
    "log_device_placement",
    "optionally_use_dist_strat",
    "worker_gpu_memory_fraction",
)


# T2T's defaults of flags that have another default in ut_keras.
_T2T_DEFAULTS = {"autotune_maximize": True}


def _for_training_only(flag):
    """Return a trainer flag for other commands, which accept only T2T's default."""
    if flag.name in _T2T_DEFAULTS:
        flag = dataclasses.replace(flag, default=_T2T_DEFAULTS[flag.name], type=None)
    return dataclasses.replace(flag, help="", unsupported="it affects only training")


_TRAINER_FLAGS = tuple(
    flag if flag.name in _RUNTIME or flag.unsupported else _for_training_only(flag)
    for flag in TRAINER
)
DECODER = _merged(DECODER_OWN, _TRAINER_FLAGS)

# Flags that select a run and its weights.
_NAMES = ("problem", "model", "hparams_set", "hparams")
_RUN_FLAGS = (*_NAMES, "output_dir", "checkpoint_path", "data_dir", "t2t_usr_dir", "registry_help")
RUN = tuple(flag for flag in DECODER_OWN if flag.name in _RUN_FLAGS)

# t2t-exporter also accepts all flags of t2t-trainer.
EXPORTER_OWN = (
    *RUN,
    _NO_TMP_DIR,
    Flag("export_dir", None, "Folder to export to. Default: OUTPUT_DIR/export.", path),
    Flag("decode_hparams", "", 'Decoding options: "beam_size=4,alpha=0.6,extra_length=100,…".'),
    Flag(
        "format",
        "saved_model",
        "saved_model, litert (a .tflite file for small devices), onnx, safetensors or ctranslate2.",
        choices=("saved_model", "litert", "onnx", "safetensors", "ctranslate2"),
        other_names=(("tflite", "litert"), ("tf_lite", "litert"), ("ct2", "ctranslate2")),
    ),
    Flag(
        "export_quantize",
        "",
        "float16 or int8: smaller weights, for --format=litert or ctranslate2.",
        choices=("float16", "int8"),
        other_names=(("fp16", "float16"), ("half", "float16"), ("8bit", "int8")),
    ),
    Flag(
        "xla_compile",
        False,
        "Compile the search with XLA when the export runs, for servers with GPUs; for "
        "--format=saved_model.",
    ),
    *_unsupported("TF Hub uses SavedModels now", export_as_tfhub=False),
    *_unsupported("TensorFlow 2 writes only saved_model.pb", as_text=True),
)
EXPORTER = _merged(EXPORTER_OWN, _TRAINER_FLAGS)

_TEXT = "No effect: the served model reads and writes text itself."
QUERY_SERVER = (
    Flag("server", None, "host:port of the server's REST API, such as localhost:8501.", str),
    Flag("servable_name", None, "Name of the served model.", str),
    Flag("inputs_once", None, "One input text. Default: read typed lines.", str),
    Flag("timeout_secs", 10, "Maximum seconds per request.", least=1),
    Flag("problem", None, _TEXT, str),
    Flag("data_dir", None, _TEXT, str),
    Flag("t2t_usr_dir", None, _TEXT, str),
    *_unsupported(_CLOUD, cloud_mlengine_model_name=None, cloud_mlengine_model_version=None),
)

VISUALIZE = (
    *RUN,
    Flag("input", "", 'Input of the model; for a story: "sentence | sentence | question".'),
    Flag("visualize_dir", None, "Folder to write the pictures to.", path),
    Flag("steps", False, "Also draw what the model would predict after each step."),
)
