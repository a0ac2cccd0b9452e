"""Compares the conditions of training between sessions and between workers.

    conditions = training_conditions.describe(setup, num_replicas=2)   saved in run.json
    training_conditions.changes(record, conditions, setup)             notes for a resumed run
    training_conditions.worker_fingerprint(setup)                      must be equal on all workers

Conditions are the training data, the batch size, the seed and other inputs of the updates. A user
may want to change conditions between two sessions, so a change is only reported. If a change would
make the model compute another function, other modules raise an error (`hparam_schema.changes`,
`feature_record`).
"""

from collections.abc import Mapping
from typing import Any

import ut_keras
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.hparam_schema import changes as hparam_changes
from ut_keras.hparam_schema.basic import NEEDS_TRAIN_STEPS
from ut_keras.inference import feature_record

# Flags that may differ between workers, or whose values are in other entries of the fingerprint.
_PER_WORKER_FLAGS = frozenset(
    {
        *("data_dir", "tmp_dir", "output_dir", "t2t_usr_dir", "generate_data"),
        *("worker_wait_secs", "cloud_tpu_name", "log_device_placement", "profile"),
        *("intra_op_parallelism_threads", "inter_op_parallelism_threads"),
        "worker_gpu_memory_fraction",
        *("hparams_set", "hparams", "registry_help"),
    }
)
_LABELS = {
    "train_data": "the training data",
    "eval_data": "the evaluation data",
    "num_replicas": "the number of replicas",
    "batch_size": "the batch_size of all replicas together",
}
_OF_EVALUATIONS = ("eval_data", "eval_steps", "decode_hparams")
_NOT_COMPARABLE = ", so the results are not comparable with those of earlier evaluations"
_SAME_BATCHES = (
    ". Because of --global_batch_size, the batches, their order and (up to rounding) the updates "
    "stay the same; dropout samples other masks"
)


def describe(setup: Any, num_replicas: int) -> dict[str, Any]:
    """Return the training conditions of a run as a JSON-compatible dict.

    Args:
        setup: `trainer_setup.Setup`.
        num_replicas: int. The total number of replicas of all workers.
    """
    return {
        "train_data": data_fingerprint(setup, "train"),
        "num_replicas": num_replicas,
        "global_batch_size": setup.args.global_batch_size,
        "batch_size": setup.hp.batch_size * (1 if setup.args.global_batch_size else num_replicas),
        "train_steps": setup.args.train_steps,
        "moving_average_decay": setup.args.moving_average_decay,
        "hparams": hparam_changes.non_defaults(setup.hp),
        **(_of_evaluations(setup) if setup.schedule != "train" else {}),
    }


def _of_evaluations(setup):
    """Return the conditions that two comparable evaluations must share.

    Early stopping and the folder "best" compare such results.
    """
    split = setup.eval_split
    found = {
        "eval_split": split,
        "eval_data": data_fingerprint(setup, split),
        "eval_steps": setup.args.eval_steps,
    }
    if setup.schedule.endswith("_and_decode"):
        found["decode_hparams"] = setup.args.decode_hparams or "the default"
    return found


def changes(record: Any, conditions: Mapping[str, Any], setup: Any) -> list[str]:
    """Return a note for each condition that differs from the record in run.json.

    If an older version wrote run.json, some conditions may be missing. Missing conditions are
    skipped.

    Args:
        record: the content of run.json.
        conditions: dict, the result of `describe` for this session.
        setup: `trainer_setup.Setup`.
    """
    before = {**record.get("trained_with", {}), "random_seed": record.get("random_seed")}
    now = {**conditions, "random_seed": setup.seed}
    compared = ["train_data", "num_replicas", "batch_size", "random_seed", "moving_average_decay"]
    schedule = setup.hp.learning_rate_schedule
    if any(factor in schedule for factor in NEEDS_TRAIN_STEPS):
        compared.append("train_steps")
    reasons = {"train_steps": f", and {schedule} depends on it"}
    # Results are recorded with the name of the split. Results of two splits are never compared.
    if now.get("eval_split") == before.get("eval_split"):
        compared += [name for name in _OF_EVALUATIONS if name in now]
        reasons |= dict.fromkeys(_OF_EVALUATIONS, _NOT_COMPARABLE)
        reasons["eval_steps"] += ", unless all of them read the complete split"
    size = now.get("global_batch_size")
    if size is not None and size == before.get("global_batch_size"):
        reasons["num_replicas"] = _SAME_BATCHES
    return [
        f"note: {_LABELS.get(name, name)} changed from {before[name]} to {now[name]}"
        + reasons.get(name, "")
        for name in compared
        if before.get(name) not in (None, now[name])
    ]


def worker_fingerprint(setup: Any) -> dict[str, Any]:
    """Return the settings that must be equal on all workers.

    The settings that are most likely to differ come first.

    Raises:
        DeviceError: if this worker has fewer GPUs than requested.
    """
    import tensorflow as tf

    from ut_keras.training import distribution

    features = feature_record.from_problem(setup.problem, setup.args.data_dir)
    vocabularies = feature_record.description(features)
    return {
        "problem": setup.problem.name,
        **{
            name: value for name, value in vars(setup.args).items() if name not in _PER_WORKER_FLAGS
        },
        **{f"hparam {name}": value for name, value in vars(setup.hp).items()},
        "train_data": data_fingerprint(setup, "train"),
        "eval_data": data_fingerprint(setup, setup.eval_split),
        **{f"vocabulary of {name}": text for name, text in vocabularies.items()},
        "gpus": len(distribution.physical_gpus(setup.args.worker_gpu)),
        "ut_keras": ut_keras.__version__,
        "tensorflow": tf.__version__,
    }


def data_fingerprint(setup: Any, split: str) -> str | None:
    """Return the fingerprint of a split's files, or None if the split has no files.

    Missing files raise an error later, when the split is read.
    """
    try:
        files = setup.problem.split_files(split, setup.args.data_dir)
    except DataError:
        return None
    return tfrecords.fingerprint(files)
