"""Runs a hyperparameter search of ut-trainer.

The command is `ut-trainer --hparams_range=… --autotune_objective=…`.

    output_dir/trial-N          the run of trial N, with log.txt
    output_dir/search.journal   Optuna's journal of all trials with their hparams and results

To resume a search, give the same command again. First, unfinished trials resume from their newest
checkpoints. Finished trials do not run again.
"""

import argparse
import dataclasses
import math
import os
import shlex
import sys
import time
from typing import Any

from ut_keras import hparams as hparams_lib
from ut_keras.bin import command, command_line, flags, trainer_setup, training_conditions
from ut_keras.bin.trainer_setup import Setup
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import UsageError
from ut_keras.files import metrics_file
from ut_keras.hparam_schema import overrides as hparam_overrides
from ut_keras.hparam_schema import ranged_hparams
from ut_keras.process import interruption
from ut_keras.training import output_folder, search, trial_process

_WAIT_SECONDS = 0.2
_OWN_FLAGS = {"hparams_range", "output_dir", "hparams", "random_seed", "generate_data"}
# These flags and the ranges identify a search. Trials for which these flags have other values would
# not be comparable.
_SEARCH_IDENTITY = (
    *("problem", "model", "hparams_set", "hparams", "hparams_range", "autotune_objective"),
    *("autotune_maximize", "train_steps", "eval_steps", "eval_use_test_set", "schedule"),
    *("decode_hparams", "global_batch_size", "worker_gpu", "warm_start_from"),
    *("moving_average_decay", "eval_early_stopping_steps"),
)
_EARLY_STOPPING = (
    *("eval_early_stopping_metric", "eval_early_stopping_metric_delta"),
    "eval_early_stopping_metric_minimize",
)


def run(args: argparse.Namespace, program: str) -> None:
    """Run a search and print a table of all trials at the end.

    Args:
        args: the flags of the trainer.
        program: str. Python code that runs the trainer. Each trial runs this code in a new process.

    Raises:
        UsageError: if the flags are invalid, or if all trials failed.
        Interrupted: if a signal arrived. All running trials have then saved a checkpoint.
    """
    setup, ranges = check(args)
    with output_folder.lock(args.output_dir):
        if not os.path.exists(os.path.join(args.output_dir, search.FILENAME)):
            _check_free(args.output_dir, range(args.autotune_max_trials))
        study = search.open_study(args.output_dir, _identity(args, ranges), args.random_seed)
        search.check_trials(study, ranges)
        to_come = [t.number for t in study.trials if t.state.name == "WAITING"]
        to_come += range(len(study.trials), args.autotune_max_trials)
        _check_free(args.output_dir, to_come)
        for line in ranged_hparams.ignored_notes(ranges, setup.hp):
            print(f"note: {line}", flush=True)
        if args.generate_data:
            command.load_tensorflow()
            setup.problem.generate_data(args.data_dir, args.tmp_dir)
        search.keep_attributes(study, _data(setup), args.output_dir)
        with interruption.StopRequest() as stop:
            _Search(setup, ranges, study, program).run(stop)
    print("\n".join(search.table(study, ranges)), flush=True)
    ended = search.completed(study)
    if not ended:
        reasons = "; ".join(dict.fromkeys(search.reason(trial) for trial in study.trials))
        raise UsageError(f"All trials failed. Received: {reasons}.")
    overrides = shlex.quote(_overrides(args, search.hparams_of(ended[0], ranges)))
    print(
        f"best: trial-{ended[0].number}, with --hparams_set={args.hparams_set} "
        f"--hparams={overrides}",
        flush=True,
    )


def _identity(args, ranges):
    """Return the values that must stay the same in all sessions of a search."""
    identity = {name: getattr(args, name) for name in _SEARCH_IDENTITY}
    identity["ranges"] = [str(item) for item in ranges]
    identity["flags of --t2t_usr_dir"] = args.package_words
    if args.eval_early_stopping_steps:  # otherwise these flags do not change the results
        identity |= {name: getattr(args, name) for name in _EARLY_STOPPING}
    return identity


def _data(setup):
    """Return the fingerprints of the data.

    Results on other data are not comparable. If data are missing, the trials report this error.
    """
    splits = {"the training data": "train", "the evaluation data": setup.eval_split}
    found = {
        name: training_conditions.data_fingerprint(setup, split) for name, split in splits.items()
    }
    return {name: text for name, text in found.items() if text is not None}


def check(args: argparse.Namespace) -> tuple[Any, Any]:
    """Return the `Setup` with which trials start, and the `Range`s to search.

    This function does not import TensorFlow.

    Raises:
        UsageError, UnknownNameError, HParamError: with a one-line message.
    """
    trainer_setup.check_names(args)
    command_line.require(args, "autotune_objective", what="a metric, such as accuracy_per_sequence")
    objective = metrics_file.metric_name(args.autotune_objective)
    _set_direction(args, objective)
    if os.environ.get("TF_CONFIG"):
        raise UsageError(
            "TF_CONFIG must not be set with --hparams_range: each trial runs in one process. "
            f"Received: {os.environ['TF_CONFIG']}."
        )
    command_line.require(args, "hparams_set", what="the hparams set that the trials start from")
    ranges = hparams_lib.get_range(args.hparams_range)
    setup = trainer_setup.check(args)
    if setup.schedule == "train" or not setup.trains:
        raise UsageError(
            "--schedule must train and evaluate: evaluations compute the objective. "
            f"Received: {args.schedule}."
        )
    trainer_setup.check_metric_schedule("autotune_objective", objective, setup.schedule)
    if checkpoint_files.exists(args.output_dir):
        raise UsageError(
            "--output_dir must be a new folder or the folder of a search. "
            f"Received: {args.output_dir}, which contains a run."
        )
    ranged_hparams.check_hparams(ranges, setup.hp)
    # The fields that --hparams sets have fixed values in the search.
    fixed = hparam_overrides.parse(args.hparams)
    ranges = tuple(item for item in ranges if item.name not in fixed)
    if not ranges:
        raise UsageError(
            "--hparams must leave at least one field of the range to search. Received: all are set."
        )
    gpu_groups(args.autotune_parallel_trials)
    search.optuna()
    return setup, ranges


def _set_direction(args, objective):
    """Set the flag autotune_maximize to True if it is not given.

    Raises:
        UsageError: if the flag is not given and a smaller value of the objective is better.
    """
    if args.autotune_maximize is not None:
        return
    if metrics_file.is_less_better(objective):
        raise UsageError(
            f"--autotune_objective={args.autotune_objective} requires --noautotune_maximize, "
            "or --autotune_maximize if a higher value is better. Received: neither flag."
        )
    args.autotune_maximize = True


def gpu_groups(parallel: int) -> list[Any]:
    """Return the value of CUDA_VISIBLE_DEVICES for each parallel trial.

    None means that the trial inherits the unchanged variable.

    Raises:
        UsageError: if the visible GPUs cannot be divided evenly between the trials.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if parallel == 1 or not visible:
        return [None] * parallel
    gpus = visible.split(",")
    if len(gpus) % parallel:
        raise UsageError(
            "CUDA_VISIBLE_DEVICES must name a multiple of --autotune_parallel_trials GPUs, or be "
            f"empty. Received: {visible} for {parallel} trials."
        )
    each = len(gpus) // parallel
    return [",".join(gpus[number * each :][:each]) for number in range(parallel)]


def trial_arguments(args: argparse.Namespace, trial: Any, seed: int) -> list[str]:
    """Return the trainer's arguments for a trial."""
    kept = []
    for flag in flags.TRAINER:
        if flag.is_only_for_error:
            continue
        value = getattr(args, flag.name.replace("-", "_"))
        is_own = flag.name in _OWN_FLAGS or flag.name.startswith("autotune_")
        if not is_own and value != flag.default:
            kept.append(f"--{flag.name}={value}")
    return [
        *kept,
        *args.package_words,
        f"--hparams={_overrides(args, trial.user_attrs['hparams'])}",
        f"--random_seed={seed}",
        f"--output_dir={_trial_dir(args.output_dir, trial.number)}",
    ]


@dataclasses.dataclass
class _Search:
    """Starts the trials of a search and records their results."""

    setup: Setup
    ranges: Any
    study: Any
    program: str
    # Dict from the number of a slot to (trial, process).
    running: dict[int, Any] = dataclasses.field(default_factory=dict)

    def run(self, stop):
        """Run trials until the search has --autotune_max_trials trials."""
        gpus = gpu_groups(self.setup.args.autotune_parallel_trials)
        try:
            while True:
                is_more = False
                for slot in range(len(gpus)):
                    if slot not in self.running and not stop.requested:
                        is_more = self._start(slot, gpus[slot]) or is_more
                if not self.running and not is_more:
                    break
                time.sleep(_WAIT_SECONDS)
                for slot, (trial, process) in list(self.running.items()):
                    if stop.requested:
                        process.stop()
                    if process.exit_code is not None:
                        del self.running[slot]
                        self._end(trial, process, stop)
        finally:
            for _, process in self.running.values():
                process.kill()
        if stop.requested:
            raise stop.stopped(
                "the search stopped and saved its trials. Run the same command again to resume."
            )

    def _start(self, slot, gpus):
        """Start the next trial, or return False if there is no trial to start."""
        busy = [trial.number for trial, _ in self.running.values()]
        most = self.setup.args.autotune_max_trials
        try:
            trial = search.next_trial(self.study, self.ranges, busy, most)
        except search.RejectedTrial as rejected:
            self._fail(rejected.trial, str(rejected))
            return True
        if trial is None:
            return False
        directory = _trial_dir(self.setup.args.output_dir, trial.number)
        lock = trial_process.try_lock(directory)
        if lock is None:
            # An earlier process of the search was killed, and the process of this trial is still
            # saving. The search tries again later.
            return True
        seed = self.study.user_attrs["random_seed"]
        arguments = trial_arguments(self.setup.args, trial, seed)
        words = [sys.executable, "-P", "-c", self.program, *arguments]
        process = trial_process.TrialProcess(words, directory, gpus, lock)
        self.running[slot] = trial, process
        tried = search.tried(trial, self.ranges)
        print(f"trial-{trial.number}: {tried} ({directory}/log.txt)", flush=True)
        return True

    def _end(self, trial, process, stop):
        """Record the result of a process that has ended.

        If the trial ended because the search stopped, the method records nothing, so the trial can
        resume.
        """
        code = process.exit_code
        if code == 0:
            self._read_objective(trial)
        elif not stop.requested:
            self._fail(trial, f"killed by signal {-code}" if code < 0 else process.last_line())

    def _read_objective(self, trial):
        directory = _trial_dir(self.setup.args.output_dir, trial.number)
        objective = self.setup.args.autotune_objective
        step, value = search.final_objective(directory, objective)
        if not math.isfinite(value):
            self._fail(trial, f"{objective}={value} at step {step}")
            return
        search.tell(self.study, trial, value)
        best = next(
            (
                f" (best: {search.as_text(t.value)}, trial-{t.number})"
                for t in search.completed(self.study)
            ),
            "",
        )
        print(f"trial-{trial.number}: {objective}={search.as_text(value)}{best}", flush=True)

    def _fail(self, trial, reason):
        search.tell(self.study, trial, None, reason)
        print(f"trial-{trial.number} failed: {reason}", flush=True)


def _check_free(output_dir, numbers):
    """Raise `UsageError` if a file in the folder has the name of a future trial."""
    taken = (_trial_dir(output_dir, number) for number in numbers)
    if there := next(filter(os.path.lexists, taken), None):
        raise UsageError(
            "--output_dir must not contain other files with the names of trials. "
            f"Received: {there!r}, which does not belong to a search."
        )


def _trial_dir(output_dir, number):
    return os.path.join(output_dir, f"trial-{number}")


def _overrides(args, hparams):
    own = ",".join(
        f"{name}='{value}'" if isinstance(value, str) and "," in value else f"{name}={value}"
        for name, value in hparams.items()
    )
    return ",".join(filter(None, [args.hparams, own]))
