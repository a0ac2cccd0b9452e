"""From flags to a run: first everything that can be checked without TensorFlow, then the trainer.

    setup = check(args)          names, hparams, output_dir: answered in well under a second
    trainer = make_trainer(setup)

A run's folder says what it holds: `hparams.json` the final hparams, `run.json` the problem, the
model and the random seed, `features.json` and the vocabularies what the ids are. Running the
command again goes on only if they fit.
"""

import argparse
import dataclasses
import functools
import json
import os
import secrets
from typing import Any

import hparams as hparams_lib
import problems
from ut_keras import hparam, models, whole_file
from ut_keras.bin import run_terms
from ut_keras.bin.flags import OTHER_SCHEDULES, SCHEDULES
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import UsageError
from ut_keras.hparam import changes as hparam_changes
from ut_keras.inference import decode_hparams, feature_record, run_record, to_text
from ut_keras.inference import run as run_lib
from ut_keras.registry import unknown_name_message
from ut_keras.training import cluster, early_stopping, rendezvous, run_folder, worker_agreement

# Of a checkpoint that is there; the others train.
_OF_A_CHECKPOINT = ("evaluate", "evaluate_and_decode")
_SAME_SCHEDULE = {"train_and_evaluate": "continuous_train_and_eval"}


@dataclasses.dataclass(frozen=True)
class Setup:
    """A command line, checked.

    Fields:
        args: the flags.
        schedule: str, the name of a method of the trainer.
        problem: `Problem`.
        hp: hparams.
        data_dir, tmp_dir, output_dir: str, with ~ expanded.
        eval_split: str.
        seed: int.
        decode: dict of decode hparams.
        cluster: `Cluster`, or None for one worker.
        early_stopping: `EarlyStopping`.
        profile_steps: (first, last) updates to profile, or None.
        finds_batch_size: bool. Whether the batch size is the largest that fits in memory.
    """

    args: Any
    schedule: str
    problem: Any
    hp: Any
    data_dir: str
    tmp_dir: str
    output_dir: str
    eval_split: str
    seed: int
    decode: dict
    cluster: Any
    early_stopping: Any
    profile_steps: tuple | None
    finds_batch_size: bool

    @property
    def trains(self) -> bool:
        return self.schedule not in _OF_A_CHECKPOINT

    @property
    def writes(self) -> bool:
        """Whether this process writes the files of the run."""
        return self.trains and (self.cluster is None or self.cluster.is_chief)


def check(args: argparse.Namespace) -> Setup:
    """Checks flags against each other, the registries and the output folder.

    Raises:
        UsageError, UnknownNameError, HParamError: one line that says what is wrong.
    """
    check_names(args)
    for name in ("problem", "model", "data_dir", "output_dir"):
        if not getattr(args, name):
            raise UsageError(f"--{name} must be given. --registry_help lists the names.")
    if args.schedule in OTHER_SCHEDULES:
        raise UsageError(f"--schedule cannot be {args.schedule}: {OTHER_SCHEDULES[args.schedule]}.")
    if args.schedule not in SCHEDULES:
        raise UsageError(unknown_name_message("schedule", args.schedule, SCHEDULES))
    schedule = _SAME_SCHEDULE.get(args.schedule, args.schedule)
    problem = problems.get(args.problem)
    output_dir = os.path.expanduser(args.output_dir)
    record = run_record.read(output_dir)
    hp, saved = final_hparams(args, output_dir, record)
    hp, finds_batch_size = _with_batch_size(args, hp, saved, output_dir)
    trains = schedule not in _OF_A_CHECKPOINT
    hp.check_supported(training=trains)
    decode = decode_hparams.parse(args.decode_hparams)
    data_dir = os.path.expanduser(args.data_dir)
    if not args.generate_data and not os.path.isdir(data_dir):
        raise UsageError(
            f"--data_dir must be a folder with data; --generate_data makes them. "
            f"Received: {data_dir!r}, which does not exist."
        )
    _check_same_run(args, record, output_dir, trains)
    if checkpoint_files.exists(output_dir) and saved is not None:
        hparam.check_same_architecture(saved, hp)
    if trains:
        run_folder.check(output_dir)
    say_differences(saved, hp, output_dir, of_the_function=not trains)
    seed = args.random_seed
    if seed is None:
        seed = record.get("random_seed", secrets.randbelow(2**31))
    return Setup(
        args=args,
        schedule=schedule,
        problem=problem,
        hp=hp,
        data_dir=data_dir,
        tmp_dir=os.path.expanduser(args.tmp_dir),
        output_dir=output_dir,
        eval_split=eval_split(args, problem),
        seed=seed,
        decode=decode,
        cluster=cluster.from_environment(resolver=args.cluster_resolver),
        early_stopping=_early_stopping(args, schedule),
        profile_steps=_profile_steps(args.profile),
        finds_batch_size=finds_batch_size and trains,
    )


def check_names(args: argparse.Namespace) -> None:
    """Checks the names that are given; a misspelt one is said before anything that is missing.

    Raises:
        UnknownNameError: with the names that are nearest.
    """
    checks: dict[str, Any] = {
        "problem": problems.get,
        "model": models.check_name,
        "hparams_set": hparams_lib.get,
    }
    for flag, check_name in checks.items():
        if getattr(args, flag, None):
            check_name(getattr(args, flag))


def _with_batch_size(args, hp, saved, output_dir):
    """(hparams, whether the batch size is still to be found)."""
    if args.global_batch_size is not None:
        if args.batch_size is not None:
            raise UsageError(
                "--global_batch_size stands in place of --batch_size; give one of them. Received: "
                f"--global_batch_size={args.global_batch_size}, --batch_size={args.batch_size}."
            )
        return hp.override({"batch_size": args.global_batch_size}), False
    if args.batch_size is None:
        return hp, False
    if args.batch_size != "auto":
        if not args.batch_size.isdecimal():
            raise UsageError(
                f"--batch_size must be a number or auto. Received: {args.batch_size!r}."
            )
        return hp.override({"batch_size": int(args.batch_size)}), False
    if checkpoint_files.exists(output_dir) and saved is not None:
        return hp.override({"batch_size": saved.batch_size}), False
    return hp, True


def _early_stopping(args, schedule):
    stopping = early_stopping.EarlyStopping(
        args.eval_early_stopping_metric,
        args.eval_early_stopping_steps,
        args.eval_early_stopping_metric_delta,
        args.eval_early_stopping_metric_minimize,
    )
    if stopping.metric.startswith("decode/") and not schedule.endswith("_and_decode"):
        raise UsageError(
            f"--eval_early_stopping_metric={stopping.metric} needs "
            f"--schedule=train_eval_and_decode. Received: --schedule={schedule}."
        )
    if args.eval_early_stopping_steps is not None and schedule in ("train", *_OF_A_CHECKPOINT):
        raise UsageError(
            "--eval_early_stopping_steps needs a schedule that trains and evaluates. "
            f"Received: --schedule={schedule}."
        )
    if not 0.0 <= args.moving_average_decay < 1.0:
        raise UsageError(
            f"--moving_average_decay must be in [0, 1). Received: {args.moving_average_decay}."
        )
    return stopping


def _profile_steps(text):
    if not text or text == "False":  # T2T's flag is a switch
        return None
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise UsageError(f"--profile must be the updates to profile, A-B. Received: {text!r}.")
    return int(first), int(last)


def configure_tensorflow(args: argparse.Namespace) -> None:
    """Passes on the flags about the runtime; must come before anything is computed."""
    intra, inter = args.intra_op_parallelism_threads, args.inter_op_parallelism_threads
    if not (intra or inter or args.log_device_placement):
        return
    import tensorflow as tf

    try:
        tf.config.threading.set_intra_op_parallelism_threads(intra)
        tf.config.threading.set_inter_op_parallelism_threads(inter)
    except RuntimeError:  # in a program that has computed already
        print("note: TensorFlow runs already, so its threads stay as they are", flush=True)
    tf.debugging.set_log_device_placement(args.log_device_placement)


def make_trainer(setup: Any) -> tuple[Any, Any, Any]:
    """Builds the model and all that trains it; loads TensorFlow.

    Returns:
        (trainer, make_epoch, make_eval_dataset): what a schedule is called with.

    Raises:
        WorkerLost: if another worker has gone meanwhile.
    """
    from ut_keras.training import distribution

    try:
        return _make_trainer(setup)
    except distribution.LOST_WORKER_ERRORS as error:
        if setup.cluster is None:
            raise
        raise distribution.WorkerLost(
            "Another worker has stopped answering before the first step. Run the same command on "
            "all workers."
        ) from error


def _make_trainer(setup):
    import keras

    from ut_keras import optimizers
    from ut_keras.inference import free_decoding
    from ut_keras.training import distribution, evaluation, train_settings
    from ut_keras.training import trainer as trainer_lib

    args, problem, hp = setup.args, setup.problem, setup.hp
    tpu = args.cloud_tpu_name if args.use_tpu else None
    if setup.cluster is not None:
        statements = rendezvous.exchange(
            setup.cluster, args.worker_wait_secs, run_terms.statement(setup)
        )
        worker_agreement.check(statements, setup.cluster.index)
    strategy = distribution.get_strategy(args.worker_gpu, cluster=setup.cluster, tpu=tpu)
    # What is compiled for every shape should meet few of them.
    static_shapes = args.xla_compile or distribution.needs_static_shapes(strategy)
    # Workers that were given no seed have drawn one each.
    setup = dataclasses.replace(setup, seed=distribution.from_chief(strategy, setup.seed))
    keras.utils.set_random_seed(setup.seed % 2**32)

    is_global = args.global_batch_size is not None

    def dataset(split, seed=None):
        return problem.dataset(
            split,
            setup.data_dir,
            setup.hp,
            num_replicas=1 if is_global else strategy.num_replicas_in_sync,
            seed=seed,
            static_shapes=static_shapes,
        )

    # To trace a dataset takes longer than to read a small one; both are asked for again.
    @functools.lru_cache(maxsize=1)
    def make_epoch(number):
        return dataset(
            "train", seed=lambda passed: (setup.seed * 1000003 + number + passed) % 2**31
        )

    @functools.lru_cache(maxsize=1)
    def make_eval_dataset():
        return dataset(setup.eval_split)

    # Data that cannot be read, or have another vocabulary, should be told before a model is built.
    if setup.trains:
        make_epoch(0)
    if setup.schedule != "train":
        make_eval_dataset()
    if checkpoint_files.exists(setup.output_dir):
        features = feature_record.of_problem(problem, setup.data_dir)
        feature_record.check_same_encoders(setup.output_dir, features)
    with strategy.scope():
        model = models.get(args.model, hp, problem, setup.data_dir)
        optimizer = optimizers.get(hp, args.train_steps) if setup.trains else None
    specs = problem.feature_specs(setup.data_dir)
    trainer = trainer_lib.Trainer(
        model,
        optimizer,
        strategy,
        setup.output_dir,
        train_settings.TrainSettings(
            train_steps=args.train_steps,
            eval_steps=args.eval_steps,
            eval_every_steps=args.local_eval_frequency,
            eval_throttle_seconds=args.eval_throttle_seconds,
            save_every_seconds=args.save_checkpoints_secs,
            keep_checkpoints=args.keep_checkpoint_max,
            log_every_steps=args.log_step_count_steps,
            jit_compile=args.xla_compile,
            static_shapes=static_shapes,
            eval_split=setup.eval_split,
            early_stopping=setup.early_stopping,
            moving_average_decay=args.moving_average_decay,
            warm_start_from=args.warm_start_from,
            profile_steps=setup.profile_steps,
            dry_run=args.dry_run,
        ),
        evaluation.Evaluator(
            model,
            strategy,
            metric_functions(problem),
            problem.feature_metrics(setup.data_dir),
            problem.summarize,
        ),
        free_decoding.FreeDecoder(
            model,
            free_decoding.DecodeSettings(**setup.decode),
            to_text=to_text.to_text_function(problem.feature_encoders(setup.data_dir), specs),
            score=problem.score_decoded,
        ),
        problem_name=problem.name,
        write_records=lambda: _write_records(setup, strategy.num_replicas_in_sync),
    )
    if setup.finds_batch_size:
        # The dataset's functions above read it from the setup.
        setup = dataclasses.replace(setup, hp=_fill_memory(hp, trainer, make_epoch, strategy))
        make_epoch.cache_clear()
        make_eval_dataset.cache_clear()
    return trainer, make_epoch, make_eval_dataset


def _fill_memory(hp, trainer, make_epoch, strategy):
    """The hparams with the largest batch size that fits in memory."""
    from ut_keras.training import distribution

    share = trainer.share_that_fits(make_epoch)
    if share is None:
        raise UsageError(
            "--batch_size=auto needs to know the memory, and batches of a few rows to measure by. "
            "Received: a device, static shapes or data for which that is not so; give a number."
        )
    batch_size = distribution.from_chief(strategy, _rounded_down(share * hp.batch_size))
    print(f"batch_size={batch_size} will fill the memory", flush=True)
    return hp.override({"batch_size": batch_size})


def _rounded_down(value):
    """To a number with two leading binary digits: 4096, 6144, 8192, 12288..."""
    if value < 2:
        return 1
    power = 2 ** (int(value).bit_length() - 2)
    return int(value) // power * power


def final_hparams(args: argparse.Namespace, output_dir: str, record: Any) -> tuple[Any, Any]:
    """The final hparams, and those that the folder's run was trained with (or None).

    Args:
        args: the flags.
        output_dir: str.
        record: dict, what the folder's run.json says.
    """
    saved, trained = run_lib.hparams_of(output_dir, record)
    if args.hparams_set:
        return hparams_lib.get(args.hparams_set, args.hparams), trained
    if saved is None:
        raise UsageError(
            "--hparams_set must be given where there is no hparams.json in --output_dir. "
            "--registry_help lists the names."
        )
    return saved.override(args.hparams), trained


def _check_same_run(args, record, output_dir, trains):
    # Evaluating on another problem is no mistake, as long as the vocabulary is the same.
    for name in ("model", "problem") if trains else ("model",):
        there, here = record.get(name), getattr(args, name)
        if there is not None and there != here and checkpoint_files.exists(output_dir):
            raise UsageError(
                f"{output_dir} holds a run of --{name}={there}; take another --output_dir. "
                f"Received: --{name}={here}."
            )


def say_differences(saved: Any, hp: Any, output_dir: str, of_the_function: bool = False) -> None:
    """The command line wins over the file; what it changes is said."""
    if saved is not None:
        path = os.path.join(output_dir, "hparams.json")
        for line in hparam_changes.lines(saved, hp, path, of_the_function):
            print(line, flush=True)


def _write_records(setup, num_replicas):
    terms = run_terms.of(setup, num_replicas)
    if checkpoint_files.exists(setup.output_dir):
        for line in run_terms.changes(run_record.read(setup.output_dir), terms, setup):
            print(line, flush=True)
    _write_records_to(setup.output_dir, setup, terms)
    if setup.schedule != "train":
        # So that the best weights can be used as a run of their own.
        best_dir = os.path.join(setup.output_dir, "best")
        os.makedirs(best_dir, exist_ok=True)
        _write_records_to(best_dir, setup, terms)


def _write_records_to(directory, setup, terms):
    hparam.save(setup.hp, os.path.join(directory, "hparams.json"))
    features = feature_record.of_problem(setup.problem, setup.data_dir)
    feature_record.save(directory, features)
    write_run_record(
        directory,
        problem=setup.problem.name,
        model=setup.args.model,
        hparams_set=setup.args.hparams_set,
        hparams=setup.args.hparams,
        random_seed=setup.seed,
        trained_with=terms,
    )


def write_run_record(output_dir: str, **record: Any) -> None:
    """Writes `run.json`, which says whose run a folder holds."""
    path = os.path.join(output_dir, run_record.FILENAME)
    with whole_file.writing(path) as file:
        json.dump(record, file, indent=2)
        file.write("\n")


def eval_split(args: argparse.Namespace, problem: Any) -> str:
    wanted = "test" if args.eval_use_test_set else "dev"
    if wanted not in problem.splits:
        if args.eval_use_test_set or "test" not in problem.splits:
            raise UsageError(
                f"{problem.name} must have the split {wanted!r}. "
                f"Received: {', '.join(problem.splits)}."
            )
        return "test"
    return wanted


def metric_functions(problem: Any) -> dict[str, Any]:
    """The problem's metrics, as far as there are any of that name."""
    from ut_keras import metrics

    known = set(metrics.names())
    missing = [name for name in problem.eval_metrics if name not in known]
    if missing:
        print(f"Metrics that are not supported yet are left out: {', '.join(missing)}", flush=True)
    return {name: metrics.get(name) for name in problem.eval_metrics if name in known}
