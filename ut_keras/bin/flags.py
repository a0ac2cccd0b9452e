"""The flags of the commands: T2T's names and defaults; no TensorFlow.

Every flag of t2t-trainer is listed here. It works; or it is refused, with the reason.
"""

import dataclasses
import os
from typing import Any

from ut_keras.bin.command_line import Flag, path
from ut_keras.hparam import limits
from ut_keras.text import sacre_bleu

_TPU = "it belongs to Google's TPU runtime of TensorFlow 1; --use_tpu --cloud_tpu_name do without"
_SERVER = "workers are listed in the environment variable TF_CONFIG, see docs/training.md"
_CLOUD = "Google's Cloud ML Engine, which it is for, exists no more"
_GRAPH = "it belongs to TensorFlow 1's graphs and sessions"
_SEED: dict[str, Any] = {"least": 0, "most": limits.LARGEST_SEED}
_THREADS: dict[str, Any] = {"least": 0, "most": limits.MOST_THREADS}
_PROCESSES: dict[str, Any] = {"least": 1, "most": limits.MOST_THREADS}
_LATER = "it is not supported yet"
_NO_DIR = "it belongs to --translations_dir, which is not supported"
_EXPORT = "exporting is a command of its own, ut-exporter"

# What --schedule may be, and what it does.
SCHEDULES = {
    "train": "updates and checkpoints only",
    "evaluate": "metrics of the newest checkpoint",
    "evaluate_and_decode": "those, and scores of free decoding",
    "continuous_train_and_eval": "train, and evaluate each checkpoint",
    "train_and_evaluate": "the same",
    "train_eval_and_decode": "train, evaluate and decode each checkpoint",
}
# T2T's others, and why they are none here.
OTHER_SCHEDULES = {
    "continuous_eval": "evaluate, called again, takes the newest checkpoint; or train_and_evaluate",
    "continuous_eval_on_train_data": "evaluate takes the dev or test split",
    "continuous_decode": "ut-decoder decodes a checkpoint; or train_eval_and_decode",
    "continuous_decode_on_train_data": "ut-decoder decodes a checkpoint",
    "continuous_decode_on_eval_data": "ut-decoder decodes a checkpoint",
    "continuous_decode_from_file": "ut-decoder --decode_from_file decodes a checkpoint",
    "decode": "ut-decoder decodes a checkpoint",
    "run_std_server": "workers are listed in TF_CONFIG, see docs/training.md",
    "test": "--train_steps=1 tries a run",
}
_SCHEDULES = "; ".join(f"{name}: {what}" for name, what in SCHEDULES.items())

_PROBLEM = Flag("problem", None, "Name of the problem (dataset).", str)
_DATA_DIR = Flag("data_dir", None, "Folder with the data, which --generate_data writes.", path)
_TMP_DIR = Flag(
    "tmp_dir", "/tmp/t2t_datagen", "Folder for raw data; files of yours go there.", path
)
_USR_DIR = Flag(
    "t2t_usr_dir", None, "Folder of a Python package to import; it registers what is yours.", path
)
_REGISTRY_HELP = Flag("registry_help", False, "List problems, models and hparams sets.")


def _refused(reason, **defaults):
    """Flags that take no other value than T2T's default."""
    return tuple(
        Flag(name, default, type=str if default is None else None, refused=reason)
        for name, default in defaults.items()
    )


# absl's, which T2T's commands are built on.
_LOG = "TF_CPP_MIN_LOG_LEVEL and the command's own lines take its place"
_ABSL = (
    *_refused("give the flags themselves: $(cat FILE)", flagfile=""),
    *_refused(_LOG, v=0, verbosity=0, logtostderr=False, alsologtostderr=False),
)

DATAGEN = (
    Flag("problem", None, "Name of a problem, or several: name,other_name,algorithmic_*", str),
    _DATA_DIR,
    _TMP_DIR,
    _USR_DIR,
    _REGISTRY_HELP,
    Flag("random_seed", 429459, "The same seed gives the same files.", **_SEED),
    Flag("only_list", False, "Say what would be generated, and stop."),
    Flag("exclude_problems", "", "Parts of names, joined by commas, that are left out."),
    Flag("task_id", -1, "Write this file only, counted over all splits; see --only_list."),
    Flag("task_id_start", -1, "Write the files from this one on, up to --task_id_end."),
    Flag("task_id_end", -1, "Write the files before this one, from --task_id_start on."),
    Flag("num_concurrent_processes", None, "Processes; by default one a core.", int, **_PROCESSES),
    Flag("max_cases", 0, "Take the first so many samples of each split; 0 takes all.", least=0),
    Flag("inspect", 0, "Show so many records as text, and what is known of all.", least=0),
    *_refused("T2T refuses it for registered problems too", num_shards=0),
    *_refused("there are no such problems", env_problem_max_env_steps=0, env_problem_batch_size=0),
    *_ABSL,
)

IMPORT_T2T = (
    Flag("t2t_output_dir", None, "Folder of the T2T run: hparams.json, checkpoint, flags.", path),
    Flag("data_dir", None, "Folder with the data, or at least T2T's vocabulary.", path),
    Flag("problem", None, "Name of the problem. Default: as in T2T's flags_t2t.txt.", str),
    Flag("model", None, "Name of the model. Default: as in T2T's flags_t2t.txt.", str),
    Flag("output_dir", None, "Folder to write our run to.", path),
    _USR_DIR,
    _REGISTRY_HELP,
)

AVG_CHECKPOINTS = (
    Flag("checkpoints", "", "Checkpoints to average, joined by commas."),
    Flag("prefix", "", "Put before each of them, such as a folder with its slash.", path),
    Flag("num_last_checkpoints", 0, "The newest so many in the folder of --prefix, instead."),
    Flag("output_path", "/tmp/averaged.ckpt", 'Where to write; "-0" is added, as T2T does.', path),
    Flag("weights_dtype", "", "float16: half the size, and 32 bits in use.", choices=("float16",)),
    # t2t-avg-all's.
    *_refused(
        "--prefix=FOLDER/ --num_last_checkpoints=N averages the newest N of a folder",
        model_dir=None,
        n=None,
    ),
    *_refused("give --output_path, a file's name", output_dir=None),
    *_refused("it averages once; call it again", min_steps=None, wait_minutes=None),
)

BLEU = (
    Flag("translation", None, "File with the translations, one segment a line.", path),
    Flag("reference", None, "File with the reference translations.", path),
    Flag("bleu_variant", "both", "cased, uncased or both.", choices=("cased", "uncased", "both")),
    Flag("t2t", False, "Score as t2t-bleu does, not by sacreBLEU."),
    Flag(
        "language_pair",
        "",
        "Source and target language, en-zh: sacreBLEU's tokenizer of zh, ja or ko; else 13a.",
    ),
    Flag(
        "tokenize",
        "",
        "sacreBLEU's tokenizer. Default: that of --language_pair, or 13a.",
        choices=sacre_bleu.TOKENIZERS,
    ),
    *_refused("BLEU reads no source; T2T ignores it", source=None),
    *_refused("call it once for every file", translations_dir=None),
    *_refused(_NO_DIR, event_dir=None, tag_suffix="", min_steps=-1, wait_minutes=0),
    Flag("report_zero", None, type=bool, refused=_NO_DIR),
)

_MEMORY_FRACTION = Flag(
    "worker_gpu_memory_fraction",
    0.95,
    "Without effect: TensorFlow takes as much of a GPU's memory as it needs.",
    least=0,
    most=1,
)
TRAINER = (
    _PROBLEM,
    Flag("model", None, "Name of the model.", str),
    Flag("hparams_set", None, "Named set of hparams; without it, output_dir/hparams.json.", str),
    Flag("hparams", "", "Values to replace: \"hidden_size=64,pos=None,norm_type='layer'\"."),
    _DATA_DIR,
    _TMP_DIR,
    Flag("output_dir", "", "Folder of the run: checkpoints, hparams.json, metrics.jsonl.", path),
    Flag("generate_data", False, "Generate the data first, if they are not there."),
    Flag("schedule", "continuous_train_and_eval", f"What to do. {_SCHEDULES}."),
    Flag("train_steps", 250000, "Updates altogether, those of earlier runs included.", least=0),
    Flag("eval_steps", 100, "Batches of an evaluation; 0 or less takes the whole split."),
    Flag("local_eval_frequency", 1000, "Save and evaluate every so many updates.", least=1),
    Flag("eval_throttle_seconds", 0, "Least time between evaluations (T2T: 600).", least=0),
    Flag("eval_use_test_set", False, 'Evaluate and decode the "test" split, not "dev".'),
    Flag(
        "save_checkpoints_secs",
        0,
        "If not 0: also by time; with --schedule=train by time alone.",
        least=0,
    ),
    Flag("keep_checkpoint_max", 20, "How many newest checkpoints to keep; 0: all.", least=0),
    Flag("random_seed", None, "Seed of weights, dropout, order. Default: a new one.", int, **_SEED),
    Flag("decode_hparams", "", 'For decoding: "beam_size=4,alpha=0.6,extra_length=100,…".'),
    Flag("global_batch_size", None, "The batch_size of all devices together.", int, least=1),
    Flag("worker_gpu", 1, "GPUs to use (of each worker); without any, the CPU.", **_THREADS),
    Flag("worker_wait_secs", 300, "How long to wait for the other workers to come.", least=1),
    Flag("use_tpu", False, "Train on a TPU."),
    Flag(
        "cloud_tpu_name",
        f"{os.environ.get('USER')}-tpu",
        'Name or address of the TPU; "local" on the machine that has it.',
    ),
    # docs/training.md
    Flag("warm_start_from", None, "Run or checkpoint whose weights a new run begins with.", path),
    Flag("eval_early_stopping_steps", None, "Stop after so many without progress.", int, least=0),
    Flag(
        "eval_early_stopping_metric",
        "loss",
        'What "better" and OUTPUT_DIR/best go by, as named in metrics.jsonl: decode/bleu, …; by '
        '"step" the last is the best.',
    ),
    Flag("eval_early_stopping_metric_delta", 0.1, "By how much it must get better.", least=0),
    Flag(
        "eval_early_stopping_metric_minimize",
        None,
        "Whether less is better. Default: by its name (T2T: True).",
        bool,
    ),
    Flag("moving_average_decay", 0.0, "Average the weights, say 0.999, and evaluate the averages."),
    Flag("profile", None, "Updates to profile for TensorBoard: A-B.", str),
    Flag("log_step_count_steps", 100, "TensorBoard gets a point every so many updates.", least=1),
    Flag("xla_compile", False, "Compile the update by XLA."),
    Flag("intra_op_parallelism_threads", 0, "Threads of an operation; 0: all cores.", **_THREADS),
    Flag("inter_op_parallelism_threads", 0, "Operations at a time; 0: one per core.", **_THREADS),
    Flag("log_device_placement", False, "Print where each operation runs."),
    Flag("optionally_use_dist_strat", False, "Without effect: tf.distribute is always used."),
    # Search; docs/tuning.md.
    Flag("hparams_range", None, "Search this range of hparams instead of training once.", str),
    Flag("autotune_objective", None, "With it: metric to go by, as named in metrics.jsonl.", str),
    Flag("autotune_maximize", True, "With it: whether more of the metric is better."),
    Flag("autotune_max_trials", 10, "With it: trials altogether, earlier ones included.", least=1),
    Flag("autotune_parallel_trials", 1, "With it: trials at a time.", **_PROCESSES),
    _USR_DIR,
    _REGISTRY_HELP,
    *_refused("use --schedule=train_eval_and_decode", eval_run_autoregressive=False),
    *_refused(_LATER, keep_checkpoint_every_n_hours=10000, gpu_automatic_mixed_precision=False),
    *_refused("use ut-decoder", decode_from_file="", decode_to_file="", decode_reference=""),
    *_refused(_EXPORT, export_saved_model=False, export_saved_model_api_version=1),
    *_refused("no schedule waits for another process's checkpoints", eval_timeout_mins=240),
    # What has gone with TensorFlow 1.
    *_refused(_GRAPH, tfdbg=False, dbgprofile=False, enable_graph_rewriter=False),
    *_refused(_GRAPH, use_guarantee_const_getter=False),
    _MEMORY_FRACTION,
    *_refused("use --xla_compile", xla_jit_level=-1),
    *_refused("use the environment variable CUDA_VISIBLE_DEVICES", gpu_order=""),
    *_refused(_SERVER, worker_replicas=1, worker_id=0, worker_job="/job:localhost", master=""),
    *_refused(_SERVER, ps_job="/job:ps", ps_gpu=0, ps_replicas=0),
    *_refused(_SERVER, sync=False, std_server_protocol="grpc"),
    *_refused(_TPU, use_tpu_estimator=False, tpu_num_shards=8, tpu_job_name=None),
    *_refused(_TPU, tpu_infeed_sleep_secs=None, iterations_per_loop=100),
    *_refused(_CLOUD, cloud_mlengine=False, cloud_mlengine_master_type=None, **{"job-dir": None}),
    *_ABSL,
)


def _with(own, others):
    """A command's own flags, and those of another one that it has not."""
    names = {flag.name for flag in own}
    return (*own, *(flag for flag in others if flag.name not in names))


_NO_TMP_DIR = Flag("tmp_dir", "/tmp/t2t_datagen", "Without effect: nothing is generated.", path)
# t2t-decoder takes all flags of t2t-trainer besides its own.
DECODER_OWN = (
    Flag("problem", None, "Name of the problem. Default: as in the run's run.json.", str),
    Flag("model", None, "Name of the model. Default: as in run.json.", str),
    Flag("hparams_set", None, "Named set of hparams; without it, the run's hparams.json.", str),
    Flag("hparams", "", "Values to replace, as for the trainer."),
    Flag("data_dir", None, "Folder with the data, or the vocabulary if the run has none.", path),
    Flag("output_dir", "", "Folder of the run; its newest checkpoint is taken.", path),
    Flag("checkpoint_path", None, "Checkpoint to take instead: run/model.ckpt-1000.", path),
    Flag("decode_from_file", "", "File to decode, one line after the other.", path),
    Flag("decode_to_file", "", "File to write to. Default: named after the one to decode.", path),
    Flag("decode_interactive", False, "Decode what is typed."),
    Flag("score_file", "", "File of lines source<TAB>target to score, to --decode_to_file.", path),
    Flag("decode_reference", "", "File of references: BLEU of what a file was decoded to.", path),
    Flag("decode_hparams", "", 'How: "beam_size=4,alpha=0.6,extra_length=100,…".'),
    Flag("eval_use_test_set", False, 'Without a file: decode the "test" split, not "dev".'),
    Flag("keep_timestamp", False, "Give the file that is written the checkpoint's time."),
    Flag("random_seed", None, "Seed of sampling, if decode_hparams has none.", int, **_SEED),
    Flag(
        "intra_op_parallelism_threads",
        1,
        "Threads within an operation. At 1 a batch is decoded in parts, one core each; 0: each "
        "operation takes all cores.",
        **_THREADS,
    ),
    _NO_TMP_DIR,
    _USR_DIR,
    _REGISTRY_HELP,
    *_refused("decoding takes one device", worker_gpu=1),
    *_refused(_LATER, decode_shards=1),
    *_refused("what is decoded is shown or written to a file", decode_in_memory=False),
    *_refused(_GRAPH, disable_grappler_optimizations=False),
)
_RUNTIME = (
    "intra_op_parallelism_threads",
    "inter_op_parallelism_threads",
    "log_device_placement",
    "optionally_use_dist_strat",
    "worker_gpu_memory_fraction",
)
_OF_TRAINING = tuple(
    flag
    if flag.name in _RUNTIME or flag.refused
    else dataclasses.replace(flag, help="", refused="it belongs to training")
    for flag in TRAINER
)
DECODER = _with(DECODER_OWN, _OF_TRAINING)

# Which weights to take.
_NAMES = ("problem", "model", "hparams_set", "hparams")
_OF_A_RUN = (*_NAMES, "output_dir", "checkpoint_path", "data_dir", "t2t_usr_dir", "registry_help")
RUN = tuple(flag for flag in DECODER_OWN if flag.name in _OF_A_RUN)

# t2t-exporter takes all flags of t2t-trainer besides its own.
EXPORTER_OWN = (
    *RUN,
    _NO_TMP_DIR,
    Flag("export_dir", None, "Folder to export to. Default: export in --output_dir.", path),
    Flag("decode_hparams", "", 'How to decode: "beam_size=4,alpha=0.6,extra_length=100,…".'),
    Flag(
        "format",
        "saved_model",
        "saved_model; litert: a .tflite for small devices; safetensors; ctranslate2.",
        choices=("saved_model", "litert", "safetensors", "ctranslate2"),
    ),
    Flag(
        "export_quantize",
        "",
        "float16 or int8: weights of litert, ctranslate2 in so many bits.",
        choices=("float16", "int8"),
    ),
    *_refused("TF Hub modules are SavedModels now", export_as_tfhub=False),
    *_refused("TensorFlow 2 writes saved_model.pb only", as_text=True),
)
EXPORTER = _with(EXPORTER_OWN, _OF_TRAINING)

_TEXT = "Without effect: the model that is served reads and writes text itself."
QUERY_SERVER = (
    Flag("server", None, "host:port of the REST API of a server, such as localhost:8501.", str),
    Flag("servable_name", None, "Name of the model that is served.", str),
    Flag("inputs_once", None, "Ask this once. Without it, every line that is typed.", str),
    Flag("timeout_secs", 10, "Seconds that an answer may take.", least=1),
    Flag("problem", None, _TEXT, str),
    Flag("data_dir", None, _TEXT, str),
    Flag("t2t_usr_dir", None, _TEXT, str),
    *_refused(_CLOUD, cloud_mlengine_model_name=None, cloud_mlengine_model_version=None),
)

VISUALIZE = (
    *RUN,
    Flag("input", "", 'What the model is to read; of a story: "sentence | sentence | question".'),
    Flag("visualize_dir", None, "Folder to write the pictures to.", path),
)
