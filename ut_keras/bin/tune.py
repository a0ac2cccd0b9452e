"""Hyperparameter search: `trainer.py --hparams_range=NAME --autotune_objective=METRIC …`.

    output_dir/trial-N       an ordinary run each, with log.txt
    output_dir/search.json   all trials, what they tried and reached

Running the same command again goes on: unfinished trials first, each from its newest checkpoint;
finished ones are not redone.
"""

import argparse
import math
import os
import re
import shlex
import sys
import time
from typing import Any

from ut_keras import hparam
from ut_keras import hparams as hparams_lib
from ut_keras.bin import command, flags, run_setup
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import UsageError
from ut_keras.hparam import overrides as hparam_overrides
from ut_keras.hparam import ranges as hparam_ranges
from ut_keras.process import interruption, live_line
from ut_keras.training import run_folder, search, trial_process

_WAIT_SECONDS = 0.2
_OWN_FLAGS = {"hparams_range", "output_dir", "hparams", "random_seed", "generate_data"}
# The identity of a search, beside its ranges: with other values its trials could not be compared.
_SAME: tuple[str, ...] = (
    "problem",
    "model",
    "hparams_set",
    "hparams",
    "hparams_range",
    "autotune_objective",
)
_SAME += ("autotune_maximize", "train_steps", "eval_steps", "eval_use_test_set", "schedule")


def run(args: argparse.Namespace, program: str) -> None:
    """Searches, and prints the table of all trials at the end.

    Args:
        args: the trainer's flags.
        program: str, Python code that runs a trial.

    Raises:
        UsageError: if the flags do not fit, or no trial has ended well.
        Interrupted: after a signal; what runs is saved.
    """
    hp, ranges, setup = check(args)
    with run_folder.lock(setup.output_dir):
        identity = {name: getattr(args, name) for name in _SAME}
        identity["ranges"] = [str(item) for item in ranges]
        record = search.SearchRecord(setup.output_dir, identity, args.random_seed)
        _check_new_trials(setup.output_dir, len(record.trials))
        for line in hparam_ranges.without_effect(ranges, hp):
            print(f"note: {line}", flush=True)
        if args.generate_data:
            command.load_tensorflow()
            setup.problem.generate_data(setup.data_dir, setup.tmp_dir)
        running = _Search(args, setup, hp, ranges, record, program)
        with interruption.StopRequest() as stop:
            running.run(stop)
    print(search.table(record), flush=True)
    if not record.best():
        reasons = "; ".join(dict.fromkeys(trial.reason for trial in record.trials))
        raise UsageError(f"A trial of a search must end well. Received: {reasons or 'no trials'}.")
    best = record.best()[0]
    print(
        f"best: trial-{best.number}, by --hparams_set={args.hparams_set} "
        f"--hparams={shlex.quote(_overrides(args, best))}",
        flush=True,
    )


def check(args: argparse.Namespace) -> tuple[Any, Any, Any]:
    """Checks the flags of a search, without TensorFlow.

    Returns:
        (hp, ranges, setup): the hparams that trials start from, a tuple of `Range`, a `Setup`.

    Raises:
        UsageError, UnknownNameError, HParamError: one line that says what is wrong.
    """
    run_setup.check_names(args)
    if not args.autotune_objective:
        raise UsageError(
            "--autotune_objective must be given with --hparams_range: the name of a metric, such "
            "as accuracy_per_sequence."
        )
    if args.autotune_maximize and args.autotune_objective.rpartition("/")[2] == "loss":
        raise UsageError(
            "--autotune_objective=loss must be minimised: give --noautotune_maximize. "
            "Received: --autotune_maximize=True, the default."
        )
    if args.train_steps < 1:
        raise UsageError(f"--train_steps must be at least 1. Received: {args.train_steps}.")
    if os.environ.get("TF_CONFIG"):
        raise UsageError(
            "TF_CONFIG must not be set for --hparams_range: a trial has one process. "
            f"Received: {os.environ['TF_CONFIG']}."
        )
    if not args.hparams_set:
        raise UsageError("--hparams_set must be given: what the trials start from.")
    ranges = hparams_lib.get_range(args.hparams_range)
    setup = run_setup.check(args)
    if setup.schedule == "train" or not setup.trains:
        raise UsageError(
            "--schedule must train and evaluate: the objective is read off evaluations. "
            f"Received: {args.schedule}."
        )
    if checkpoint_files.exists(setup.output_dir):
        raise UsageError(
            f"--output_dir must be a folder for a search. Received: {setup.output_dir}, which "
            "holds a run."
        )
    hparam_ranges.check_hparams(ranges, setup.hp)
    # What the command line fixes is not searched.
    fixed = hparam_overrides.parse(args.hparams)
    ranges = tuple(item for item in ranges if item.name not in fixed)
    if not ranges:
        raise UsageError("--hparams must leave a range to search. Received: all are set.")
    gpu_groups(args.autotune_parallel_trials)
    search.check_installed()
    return setup.hp, ranges, setup


def gpu_groups(parallel: int) -> list[Any]:
    """What CUDA_VISIBLE_DEVICES is for each of the trials that run at a time.

    Returns:
        List of str, or of None to leave it as it is.

    Raises:
        UsageError: if the GPUs that it names cannot be divided evenly.
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


def trial_arguments(args: argparse.Namespace, output_dir: str, trial: Any, seed: int) -> list[str]:
    """The trainer's arguments for a trial: those of the search, and what it tries."""
    kept = []
    for flag in flags.TRAINER:
        value = getattr(args, flag.name.replace("-", "_"))
        is_own = flag.name in _OWN_FLAGS or flag.name.startswith("autotune_")
        if not is_own and value != flag.default:
            kept.append(f"--{flag.name}={value}")
    return [
        *kept,
        f"--hparams={_overrides(args, trial)}",
        f"--random_seed={seed}",
        f"--output_dir={_trial_dir(output_dir, trial)}",
    ]


class _Search:
    """The trials that run, and what becomes of them."""

    def __init__(self, args, setup, hp, ranges, record, program):
        self._args = args
        self._setup = setup
        self._hp = hp
        self._ranges = ranges
        self._record = record
        self._program = program
        self._seed = record.random_seed
        self._running = {}  # slot -> (trial, process)
        self._line = live_line.ProgressLine("search")

    def run(self, stop):
        """Runs trials until there are enough of them."""
        gpus = gpu_groups(self._args.autotune_parallel_trials)
        stopped = None
        try:
            while True:
                more = False
                for slot in range(len(gpus)):
                    if slot not in self._running and not stop.requested and stopped is None:
                        more = self._start(slot, gpus[slot]) or more
                if not self._running and not more:
                    break
                time.sleep(_WAIT_SECONDS)
                if self._line.is_due and self._running:
                    self._line.say(self._how_far())
                for slot, (trial, process) in list(self._running.items()):
                    if stop.requested or stopped is not None:
                        process.stop()
                    if process.exit_code is not None:
                        del self._running[slot]
                        stopped = self._end(trial, process, stop) or stopped
        finally:
            self._line.close()
            for _, process in self._running.values():
                process.kill()
        if stop.requested:
            raise stop.stopped(
                "the search stopped, its trials are saved. Run the same command again to go on."
            )
        if stopped is not None:
            raise interruption.Interrupted(
                f"A trial was stopped (exit code {stopped}) and the search with it. Run the same "
                "command again to go on.",
                stopped,
            )

    def _start(self, slot, gpus):
        """Starts the next trial, if it can be; False if there is none."""
        trial = self._next()
        if trial is None:
            return False
        directory = _trial_dir(self._setup.output_dir, trial)
        lock = trial_process.try_lock(directory)
        if lock is None:
            # The process of a search that was killed saves and ends. Tried again at the next turn.
            return True
        arguments = trial_arguments(self._args, self._setup.output_dir, trial, self._seed)
        words = [sys.executable, "-P", "-c", self._program, *arguments]
        process = trial_process.TrialProcess(words, directory, gpus, lock)
        self._running[slot] = trial, process
        self._print(trial, search.assignments(trial))
        return True

    def _how_far(self):
        """What the trials that run have said last."""
        running = sorted(self._running.values(), key=lambda pair: pair[0].number)
        said = ((trial.number, process.last_line() or "starting") for trial, process in running)
        return "; ".join(f"trial-{number}: {line}" for number, line in said)

    def _print(self, trial, text):
        self._line.close()
        print(f"trial-{trial.number}: {text}", flush=True)

    def _next(self):
        """The first trial that has to run: an unfinished one, else a new one, else None."""
        busy = {trial.number for trial, _ in self._running.values()}
        for trial in self._record.trials:
            if trial.state == search.RUNNING and trial.number not in busy:
                return trial
        while len(self._record.trials) < self._args.autotune_max_trials:
            params, values = search.propose(
                self._ranges, self._record.trials, self._args.autotune_maximize, self._seed
            )
            trial = self._record.add(params, values)
            try:
                self._hp.override(values).check_supported()
            except hparam.HParamError as error:
                self._fail(trial, str(error))
                continue
            return trial
        return None

    def _end(self, trial, process, stop):
        """Files what a process that has ended leaves; returns its exit code if it was stopped."""
        code = process.exit_code
        if code == 0:
            self._read_objective(trial)
        elif code < 0 and stop.requested:
            pass  # before it could save; it runs again
        elif code < 0:
            self._fail(trial, f"killed by signal {-code}")
        elif code in (1, 2):
            self._fail(trial, process.last_line())
        else:
            return code
        return None

    def _read_objective(self, trial):
        directory = _trial_dir(self._setup.output_dir, trial)
        step, value = search.objective_at_the_end(
            directory, self._setup.problem.name, self._args.autotune_objective
        )
        if not math.isfinite(value):
            self._fail(trial, f"{self._args.autotune_objective}={value} at step {step}")
            return
        trial.state, trial.step, trial.value = search.COMPLETE, step, value
        self._record.write()
        best = self._record.best()[0]
        found = f"{self._args.autotune_objective}={value:.4g}"
        self._print(trial, f"{found} (best: {best.value:.4g}, trial-{best.number})")

    def _fail(self, trial, reason):
        trial.state, trial.reason = search.FAILED, reason
        self._record.write()
        self._print(trial, f"failed: {reason}")


def _check_new_trials(output_dir, first):
    found = (re.fullmatch("trial-([0-9]+)", name) for name in os.listdir(output_dir))
    others = [match[0] for match in found if match and int(match[1]) >= first]
    if others:
        raise UsageError(
            "--output_dir must leave the names of the next trials free. Received: "
            f"{os.path.join(output_dir, others[0])!r}, which is none of search.json's."
        )


def _trial_dir(output_dir, trial):
    return os.path.join(output_dir, f"trial-{trial.number}")


def _overrides(args, trial):
    own = ",".join(
        f"{name}='{value}'" if isinstance(value, str) and "," in value else f"{name}={value}"
        for name, value in trial.hparams.items()
    )
    return ",".join(filter(None, [args.hparams, own]))
