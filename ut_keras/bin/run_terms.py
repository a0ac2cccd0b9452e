"""What a run is trained with, to be compared: with what it was before, and with what others have.

    terms = run_terms.of(setup, num_replicas=2)        kept in run.json, as "trained_with"
    run_terms.changes(record, terms, setup)            lines for whoever goes on with other terms
    run_terms.statement(setup)                         what all workers must have in common

What would change the function of a model is refused elsewhere (`hparam_changes`, `feature_record`);
other updates than those of before may be what the user wants, so they are only said.
"""

from collections.abc import Mapping
from typing import Any

import ut_keras
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.hparam import changes as hparam_changes
from ut_keras.inference import feature_record

# Flags that each worker may have its own of, or that other terms stand for.
_OF_A_WORKER = frozenset(
    {
        *("data_dir", "tmp_dir", "output_dir", "t2t_usr_dir", "generate_data"),
        *("worker_wait_secs", "cloud_tpu_name", "log_device_placement", "profile"),
        *("intra_op_parallelism_threads", "inter_op_parallelism_threads"),
        *("hparams_set", "hparams", "registry_help"),
    }
)
_NAMES = {
    "train_data": "the training data",
    "num_replicas": "the number of replicas",
    "batch_size": "the batch_size of all replicas together",
}
_SAME_BATCHES = (
    ". By --global_batch_size the batches and their order stay the same and, up to rounding, so do "
    "the updates; dropout draws others"
)
# Factors of the learning rate that end with the run.
_ENDING = ("linear_decay", "single_cycle_cos_decay")


def of(setup: Any, num_replicas: int) -> dict[str, Any]:
    """The terms of a run, as JSON can hold them; the replicas are of all workers together."""
    return {
        "train_data": _data(setup, "train"),
        "num_replicas": num_replicas,
        "global_batch_size": setup.args.global_batch_size,
        "batch_size": setup.hp.batch_size * (1 if setup.args.global_batch_size else num_replicas),
        "train_steps": setup.args.train_steps,
        "moving_average_decay": setup.args.moving_average_decay,
        "hparams": hparam_changes.noted(setup.hp),
    }


def changes(record: Any, terms: Mapping[str, Any], setup: Any) -> list[str]:
    """A line for each term of the updates that is another than run.json's `record` says.

    Runs of older versions have noted less.
    """
    noted = {**record.get("trained_with", {}), "random_seed": record.get("random_seed")}
    here = {**terms, "random_seed": setup.seed}
    compared = ["train_data", "num_replicas", "batch_size", "random_seed", "moving_average_decay"]
    schedule = setup.hp.learning_rate_schedule
    if any(factor in schedule for factor in _ENDING):
        compared.append("train_steps")
    reasons = {"train_steps": f", by which {schedule} ends"}
    size = here.get("global_batch_size")
    if size is not None and size == noted.get("global_batch_size"):
        reasons["num_replicas"] = _SAME_BATCHES
    return [
        f"The run had {_NAMES.get(name, name)}: {noted[name]}; now {here[name]}"
        + reasons.get(name, "")
        for name in compared
        if noted.get(name) not in (None, here[name])
    ]


def statement(setup: Any) -> dict[str, Any]:
    """What all workers must have in common, the likeliest first.

    Raises:
        DeviceError: if this one has fewer GPUs than asked for.
    """
    import tensorflow as tf

    from ut_keras.training import distribution

    features = feature_record.from_problem(setup.problem, setup.args.data_dir)
    vocabularies = feature_record.description(features)
    return {
        "problem": setup.problem.name,
        **{name: value for name, value in vars(setup.args).items() if name not in _OF_A_WORKER},
        **{f"hparam {name}": value for name, value in vars(setup.hp).items()},
        "train_data": _data(setup, "train"),
        "eval_data": _data(setup, setup.eval_split),
        **{f"vocabulary of {name}": text for name, text in vocabularies.items()},
        "gpus": len(distribution.physical_gpus(setup.args.worker_gpu)),
        "ut_keras": ut_keras.__version__,
        "tensorflow": tf.__version__,
    }


def _data(setup, split):
    """The fingerprint of a split; None where it has no files, which is told when it is read."""
    try:
        files = setup.problem.split_files(split, setup.args.data_dir)
    except DataError:
        return None
    return tfrecords.fingerprint(files)
