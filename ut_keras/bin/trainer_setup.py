"""Checks the flags of ut-trainer as far as possible without TensorFlow.

setup = trainer_setup.check(args)         checks names, hparams and output_dir in under a second
trainer, … = trainer.make_trainer(setup)  loads TensorFlow
"""

import argparse
import dataclasses
import os
import secrets
from typing import Any

from ut_keras import hparam_schema, models, problems
from ut_keras import hparams as hparams_lib
from ut_keras.bin import command_line
from ut_keras.bin.flags import OTHER_SCHEDULES, SCHEDULES, TRAINER
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import UsageError
from ut_keras.hparam_schema import changes as hparam_changes
from ut_keras.hparam_schema import older_versions
from ut_keras.hparam_schema import overrides as hparam_overrides
from ut_keras.hparam_schema.basic import check_train_steps, train_steps_note, warmup_note
from ut_keras.inference import decode_hparams, run_directory, run_json
from ut_keras.registry import UnknownNameError, UnsupportedNameError
from ut_keras.training import cluster, early_stopping, output_folder

# Schedules that only use an existing checkpoint. All other schedules train.
_EVALUATION_SCHEDULES = ("evaluate", "evaluate_and_decode")
_SCHEDULE_ALIASES = {"train_and_evaluate": "continuous_train_and_eval"}


@dataclasses.dataclass(frozen=True)
class Setup:
    """The checked flags of ut-trainer."""

    args: Any  # the flags
    schedule: str  # the name of a method of the trainer
    problem: Any  # `Problem`
    hp: Any  # hparams
    eval_split: str
    seed: int
    decode: dict  # decode hparams
    cluster: Any  # `Cluster`, or None if there is only one worker
    early_stopping: Any  # `EarlyStopping`
    profile_steps: tuple | None  # (first, last) update to profile

    @property
    def trains(self) -> bool:
        return self.schedule not in _EVALUATION_SCHEDULES

    @property
    def writes(self) -> bool:
        """Whether this process writes the files of the run."""
        return self.trains and (self.cluster is None or self.cluster.is_chief)


def check(args: argparse.Namespace) -> Setup:
    """Check that the flags fit each other, the registries and the output folder.

    Raises:
        UsageError, UnknownNameError, HParamError: with a one-line message.
    """
    check_names(args)
    _check_required(args)
    schedule = _schedule(args)
    trains = schedule not in _EVALUATION_SCHEDULES
    output_dir = args.output_dir
    record = run_json.read(output_dir)
    given = _given_hparams(args)
    hp, saved = final_hparams(args.hparams_set, given, output_dir, record, trains)
    hp.check_supported(training=trains)
    problem = problems.get(args.problem).with_hparams(hp)
    if trains:
        check_train_steps(hp, args.train_steps)
        _print_note(train_steps_note(hp, args.train_steps))
        _print_note(warmup_note(hp, args.train_steps))
        _print_note(older_versions.adam_note(hp.optimizer, hp.learning_rate_schedule))
    _print_note(_search_note(args))
    decode = _decode_hparams(args, schedule, problem)
    workers = _workers(args)
    _check_data_dir(args)
    _check_same_run(args, record, output_dir, trains)
    if checkpoint_files.exists(output_dir) and saved is not None:
        _check_fits_checkpoint(saved, hp, output_dir, trains)
    stopping = _early_stopping(args, schedule, problem)
    profile_steps, split = _profile_steps(args.profile), eval_split(args, problem)
    if trains:
        _check_training(args, hp, saved)
    print_hparam_changes(saved, hp, output_dir, inference_only=not trains)
    return Setup(
        args=args,
        schedule=schedule,
        problem=problem,
        hp=hp,
        eval_split=split,
        seed=_seed(args.random_seed, record),
        decode=decode,
        cluster=workers,
        early_stopping=stopping,
        profile_steps=profile_steps,
    )


def _seed(given, record):
    """Return the seed of the flag or of the run.

    A new run without the flag gets a random seed.
    """
    if given is not None:
        return given
    return record.get("random_seed", secrets.randbelow(2**31))


def _print_note(note):
    if note:
        print(f"note: {note}", flush=True)


def _search_note(args):
    """Return a note if flags of a search are given without a search, else ""."""
    flags = [flag for flag in TRAINER if flag.name.startswith("autotune_")]
    given = [f"--{flag.name}" for flag in flags if getattr(args, flag.name) != flag.default]
    if args.hparams_range or not given:
        return ""
    return f"{', '.join(given)}: no effect without --hparams_range."


def _decode_hparams(args, schedule, problem):
    """Return the decode hparams, after a check that the schedule can use them."""
    decode = decode_hparams.parse(args.decode_hparams)
    if schedule.endswith("_and_decode"):
        problem.check_scores()
    elif args.decode_hparams:
        _print_note(f"--decode_hparams has no effect: --schedule={schedule} does not decode.")
    return decode


def _workers(args):
    """Return the `Cluster` of TF_CONFIG, or None if there is only one worker."""
    workers = cluster.from_environment()
    if workers is not None and args.use_tpu:
        raise UsageError(
            "--use_tpu cannot be combined with the workers of TF_CONFIG. Received: both."
        )
    return workers


def _check_data_dir(args):
    if os.path.isdir(args.data_dir):
        return
    if os.path.lexists(args.data_dir):
        raise UsageError(f"--data_dir must be a folder. Received: {args.data_dir!r}, a file.")
    if not args.generate_data:
        raise UsageError(
            f"--data_dir must be a folder with data; --generate_data creates it. "
            f"Received: {args.data_dir!r}, which does not exist."
        )


def _check_training(args, hp, saved):
    """Check the flags of training, and print notes on hparams without effect.

    Args:
        saved: the hparams with which the run was trained, or None for a new run.
    """
    if args.warm_start_from and not checkpoint_files.exists(args.output_dir):
        _check_warm_start(args.warm_start_from)
    output_folder.check(args.output_dir, "" if args.hparams_set else "hparams.json")
    # A resumed run prints notes only on values that have changed since it started.
    before = hparams_lib.get(args.hparams_set) if saved is None else saved
    for line in (*hp.ignored_notes(before), *models.unread_notes(args.model, hp, before)):
        _print_note(line)


def _check_required(args):
    """Raise `UsageError` if a flag is missing.

    If several flags are missing, the error names all of them.
    """
    names = ("problem", "model", "data_dir", "output_dir")
    if sum(not getattr(args, name) for name in names) > 1:
        command_line.require(args, *names, what="--registry_help lists all problems and models")
    command_line.require(args, "problem", "model", what=command_line.REGISTERED_NAME)
    command_line.require(args, "data_dir", "output_dir", what="a folder")


def _schedule(args):
    """Return the checked schedule, which is the name of a method of the trainer."""
    if args.schedule in OTHER_SCHEDULES:
        raise UsageError(
            f"--schedule={args.schedule} is not supported: {OTHER_SCHEDULES[args.schedule]}."
        )
    if args.schedule not in SCHEDULES:
        raise UsageError(
            f"--schedule must be one of {', '.join(SCHEDULES)}. Received: {args.schedule!r}."
            f"{command_line.nearest_choice(args.schedule, SCHEDULES)}"
        )
    return _SCHEDULE_ALIASES.get(args.schedule, args.schedule)


def _given_hparams(args):
    """Return {name: value} of --hparams and --global_batch_size."""
    given = hparam_overrides.parse(args.hparams)
    if args.global_batch_size is not None:
        if "batch_size" in given:
            raise UsageError(
                "--hparams must not contain batch_size if --global_batch_size is given. Received: "
                f"--global_batch_size={args.global_batch_size}, batch_size={given['batch_size']}."
            )
        given["batch_size"] = args.global_batch_size
    return given


def _check_fits_checkpoint(saved, hp, output_dir, trains):
    """Check that a model with the hparams `hp` can use the checkpoint of the run."""
    hparam_schema.check_same_architecture(saved, hp)
    if trains and _optimizer(saved) != _optimizer(hp):
        raise UsageError(
            f"optimizer must be {saved.optimizer} to resume the run in {output_dir}: another "
            "optimizer cannot use its statistics. To start a new run from the weights alone, "
            f"use --warm_start_from. Received: {hp.optimizer}."
        )


def _optimizer(hp):
    """Return a normalized optimizer name, equal for all spellings that T2T accepts."""
    return hp.optimizer.replace("_", "").lower().removeprefix("true")


def check_names(args: argparse.Namespace) -> None:
    """Check the names of the problem, the model and the hparams set.

    Callers do this first, so the error about a misspelt name comes before the error about a missing
    flag.

    Raises:
        UnknownNameError: if a name is unknown. The message lists the nearest names.
    """
    checks: dict[str, Any] = {
        "problem": problems.get,
        "model": models.check_name,
        "hparams_set": hparams_lib.get,
    }
    for flag, check_name in checks.items():
        name = getattr(args, flag, None)
        if not name:
            continue
        try:
            check_name(name)
        except UnknownNameError as error:
            if flag != "hparams_set" or not _is_set_of_run(name, getattr(args, "output_dir", None)):
                raise
            raise type(error)(
                f"{error} {args.output_dir}/hparams.json has the hparams of this run. To use them, "
                "omit --hparams_set."
            ) from error


def _is_set_of_run(name, output_dir):
    """Return whether a folder's hparams.json is from the hparams set `name`."""
    path = os.path.join(output_dir or "", "hparams.json")
    return bool(output_dir) and (
        os.path.isfile(path) and run_json.read(output_dir).get("hparams_set") == name
    )


def check_metric_schedule(flag: str, metric: str, schedule: str) -> None:
    """Raise `UsageError` if a metric requires decoding, but the schedule does not."""
    if metric.startswith("decode/") and not schedule.endswith("_and_decode"):
        raise UsageError(
            f"--{flag}={metric} requires --schedule=train_eval_and_decode. "
            f"Received: --schedule={schedule}."
        )


def _early_stopping(args, schedule, problem):
    stopping = early_stopping.EarlyStopping(
        args.eval_early_stopping_metric,
        args.eval_early_stopping_steps or None,  # as in T2T, 0 means no early stopping
        args.eval_early_stopping_metric_delta,
        args.eval_early_stopping_metric_minimize,
    )
    check_metric_schedule("eval_early_stopping_metric", stopping.metric, schedule)
    if stopping.metric != "step" and not problem.may_measure(stopping.metric):
        names = {"step", "loss", "losses/…", *problem.eval_metrics, *problem.other_results}
        decoded = {"decode/accuracy", "decode/accuracy_per_sequence"}
        raise UsageError(
            f"--eval_early_stopping_metric must be one of {', '.join(sorted(names | decoded))}. "
            f"Received: {args.eval_early_stopping_metric!r}."
        )
    if args.eval_early_stopping_steps and schedule in ("train", *_EVALUATION_SCHEDULES):
        raise UsageError(
            "--eval_early_stopping_steps requires a schedule that trains and evaluates. "
            f"Received: --schedule={schedule}."
        )
    if not 0.0 <= args.moving_average_decay < 1.0:
        raise UsageError(
            f"--moving_average_decay must be in [0, 1). Received: {args.moving_average_decay}."
        )
    return stopping


def _profile_steps(text):
    if not text or text == "False":  # in T2T, --profile is a switch
        return None
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise UsageError(
            f"--profile must be the first and last update to profile, A-B. Received: {text!r}."
        )
    return int(first), int(last)


def final_hparams(
    hparams_set: str | None, given: dict[str, Any], output_dir: str, record: Any, trains: bool
) -> tuple[Any, Any]:
    """Return the final hparams, and the hparams with which the run was trained.

    As in T2T, the run's hparams.json overrides the hparams set from which the file was made. The
    `given` values override the file and the set.

    Args:
        hparams_set: str or None. Name of the set.
        given: dict from name to value, from the command line.
        output_dir: str. Folder of the run.
        record: the content of the run's run.json.
        trains: bool. Whether the command trains.

    Returns:
        (hp, trained): the final hparams, and the hparams with which the run was trained. `trained`
        is None for a new run.

    Raises:
        UsageError, HParamError: with a one-line message.
    """
    try:
        return _final_hparams(hparams_set, given, output_dir, record, trains)
    except hparam_schema.HParamError as error:
        for name in given.keys() & decode_hparams.DECODER.keys():
            if repr(name) in str(error):
                raise UsageError(
                    f"--hparams must contain hparams of the model; use --decode_hparams={name}=… "
                    f"for decoding. Received: {name}={given[name]}."
                ) from error
        for flag in TRAINER:
            if flag.name in given and repr(flag.name) in str(error) and not flag.unsupported:
                raise UsageError(
                    f"--hparams must contain hparams of the model; use the flag --{flag.name}=… "
                    f"instead. Received: {flag.name}={given[flag.name]}."
                ) from error
        raise


def _final_hparams(hparams_set, given, output_dir, record, trains):
    saved, trained = run_directory.read_hparams(output_dir, record)
    if hparams_set and (saved is None or record.get("hparams_set") != hparams_set):
        return hparams_lib.get(hparams_set).override(given), trained
    if saved is None:
        raise UsageError(
            "--hparams_set is required because --output_dir has no hparams.json. "
            "--registry_help lists the names."
        )
    of_set = hparams_lib.get(hparams_set) if hparams_set else saved
    others = [
        f"{name}={getattr(saved, name)!r}, not {getattr(of_set, name)!r}"
        for name in hparam_changes.differing_names(saved, of_set, inference_only=not trains)
        if name not in given
    ]
    if others:
        path = os.path.join(output_dir, "hparams.json")
        print(f"note: {path} overrides --hparams_set, as in T2T: {'; '.join(others)}", flush=True)
    return saved.override(given), trained


def _check_warm_start(path):
    found = os.path.expanduser(path)
    if os.path.isdir(found):
        is_checkpoint = checkpoint_files.exists(found)
    else:
        is_checkpoint = os.path.lexists(f"{found}.index")
    if not is_checkpoint:
        raise UsageError(
            "--warm_start_from must be a checkpoint, such as RUN/model.ckpt-1000, or a folder that "
            f"contains one. Received: {path!r}."
        )


def _check_same_run(args, record, output_dir, trains):
    # A run may be evaluated on another problem if the vocabularies are the same.
    trained_on = record.get("problem")
    if not trains and trained_on not in (None, args.problem):
        print(
            f"note: the run in {output_dir} was trained on {trained_on} and is evaluated on "
            f"{args.problem}",
            flush=True,
        )
    for name in ("model", "problem") if trains else ("model",):
        there, here = record.get(name), getattr(args, name)
        if there is not None and there != here and checkpoint_files.exists(output_dir):
            check_renamed(name, there, here, args.t2t_usr_dir, output_dir, trains)


def check_renamed(
    flag: str, recorded: str, given: str, usr_dir: str | None, run_dir: str, trains: bool = False
) -> None:
    """Raise `UsageError` unless the command can use the given problem for the run.

    If the package is loaded and does not have the run's problem, the user has renamed or removed
    it. A command that does not train then uses the given problem, and the caller compares the
    vocabularies. A command that trains changes the run, so the user must first change run.json.

    Args:
        flag: str. "problem" or "model".
        recorded: str. The name in run.json.
        given: str. The name in the flag.
        usr_dir: str or None. The user's package.
        run_dir: str. The folder of the run.
        trains: bool. Whether the command trains.
    """
    is_unknown = bool(usr_dir) and not _is_known(flag, recorded)
    if flag == "problem" and is_unknown and not trains:
        print(
            f"note: no problem {recorded} is registered, so the command uses {given} for the run "
            f"in {run_dir}",
            flush=True,
        )
        return
    hint = " For a new run, use another --output_dir." if trains else ""
    if is_unknown:
        path = os.path.join(run_dir, run_json.FILENAME)
        hint += f' If {given} is the new name of {recorded}, change "{flag}" in {path}.'
    raise UsageError(
        f"--{flag} must be {recorded}, as in the run in {run_dir}. "
        f"Received: --{flag}={given}.{hint}"
    )


def _is_known(flag, name):
    """Return whether a problem or model is registered, or is a known name of T2T."""
    try:
        problems.get(name) if flag == "problem" else models.check_name(name)
    except UnknownNameError as error:
        return isinstance(error, UnsupportedNameError)
    return True


def print_hparam_changes(
    saved: Any, hp: Any, output_dir: str, inference_only: bool = False
) -> None:
    """Print the hparams whose values changed since the run was trained."""
    if saved is not None:
        path = os.path.join(output_dir, "hparams.json")
        for line in hparam_changes.notes(saved, hp, path, inference_only):
            print(line, flush=True)


def eval_split(args: argparse.Namespace, problem: Any) -> str:
    """Return the split to evaluate: "test" or "dev".

    If the problem has no split "dev", the function prints a note.

    Raises:
        UsageError: if the problem has neither the requested split nor "test".
    """
    wanted = "test" if args.eval_use_test_set else "dev"
    # --schedule=train does not read the evaluation split.
    if wanted in problem.splits or getattr(args, "schedule", "") == "train":
        return wanted
    # If the data lack this optional split, the function that reads them raises an error.
    if wanted in problem.optional_splits:
        return wanted
    if "test" in problem.splits:
        print(f"note: {problem.name} has no split 'dev', so 'test' is used", flush=True)
        return "test"
    raise UsageError(
        f"{problem.name} must have the split {wanted!r}. Received: {', '.join(problem.splits)}."
    )
