"""What a search has tried, in `output_dir/search.json`, and what it tries next.

The file is replaced as a whole after every change. It is written before a trial starts and after it
has ended, so a search that is killed finds its unfinished trials there. Not Optuna's own storage:
which search it is, hparams and reasons would be attributes that we write, read and check all the
same, and Optuna alone could read the file.
"""

import dataclasses
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ut_keras.errors import UsageError
from ut_keras.files import json_file, metrics_file, whole_file

RUNNING, COMPLETE, FAILED = "running", "complete", "failed"


@dataclasses.dataclass
class Trial:
    """One try.

    Fields:
        number: int, from 0.
        params: dict from hparam name to what the tuner calls its value (see `Range.suggest`).
        hparams: dict from hparam name to value.
        state: "running" (or stopped on the way), "complete" or "failed".
        value: float. The objective, if complete.
        step: int. At which update that was.
        reason: str. Why it failed.
    """

    number: int
    params: dict
    hparams: dict
    state: str = RUNNING
    value: float | None = None
    step: int | None = None
    reason: str = ""


class SearchRecord:
    """The trials of a search, on disk.

    Args:
        output_dir: str, an existing folder.
        identity: dict of what must not change on the way, of JSON's types. What begins with
            "autotune_" may, as long as no trial is complete.
        random_seed: int, or None: that of the file, or a new one.

    Raises:
        UsageError: if the folder holds another search.
    """

    def __init__(
        self, output_dir: str, identity: Mapping[str, Any], random_seed: int | None = None
    ) -> None:
        self._path = os.path.join(output_dir, "search.json")
        self.identity = dict(identity)
        self.trials: list[Trial] = []
        self.random_seed = random_seed
        if os.path.exists(self._path):
            self._read(output_dir)
        if self.random_seed is None:
            self.random_seed = secrets.randbelow(2**31)

    def add(self, params: dict[str, Any], hparams: dict[str, Any]) -> Trial:
        """Files a new trial and returns it."""
        trial = Trial(len(self.trials), params, hparams)
        self.trials.append(trial)
        self.write()
        return trial

    def best(self) -> list[Trial]:
        """The complete trials, the best one first."""
        sign = -1 if self.identity["autotune_maximize"] else 1
        complete: list[Any] = [trial for trial in self.trials if trial.state == COMPLETE]
        return sorted(complete, key=lambda trial: sign * trial.value)

    def write(self) -> None:
        """Writes the file, whole or not at all."""
        content = {
            "search": {**self.identity, "random_seed": self.random_seed},
            "best_trial": next((trial.number for trial in self.best()), None),
            "trials": [dataclasses.asdict(trial) for trial in self.trials],
        }
        with whole_file.writing(self._path) as file:
            json.dump(content, file, indent=1)
            file.write("\n")

    def _read(self, output_dir):
        try:
            content = json_file.read(self._path)
            there = dict(content["search"])
            self.trials = [Trial(**trial) for trial in content["trials"]]
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self._path} must hold a search. Received: {error}.") from error
        if self.random_seed is None:
            self.random_seed = there["random_seed"]
        for name, here in {**self.identity, "random_seed": self.random_seed}.items():
            may_change = name.startswith("autotune_") and not self.best()
            if there.get(name) != here and not may_change:
                raise UsageError(
                    f"{output_dir} holds a search with {name}={there.get(name)!r}; take another "
                    f"--output_dir. Received: {name}={here!r}."
                )


def objective_at_the_end(trial_dir: str, problem_name: str, objective: str) -> tuple[int, float]:
    """Reads a trial's objective from its `metrics.jsonl`: that of the last evaluation.

    Args:
        trial_dir: str.
        problem_name: str.
        objective: str. A name in metrics.jsonl, or TensorBoard's for it, which T2T takes:
            "metrics-PROBLEM/targets/accuracy" or "metrics-PROBLEM/accuracy".

    Returns:
        (step, value).

    Raises:
        UsageError: if no evaluation has it; the names that are there are listed.
    """
    name = objective.removeprefix(f"metrics-{problem_name}/").removeprefix("targets/")
    found, known = None, set()
    for record in metrics_file.records(trial_dir):
        known |= record.keys() - set(metrics_file.NO_METRICS)
        if name in record:
            found = record["step"], float(record[name])
    if found is None:
        raise UsageError(
            f"--autotune_objective must be one of {', '.join(sorted(known)) or 'no results'} "
            f"({metrics_file.path(trial_dir)}). Received: {objective!r}."
        )
    return found


_SHOWN_REASON = 60


def table(record: SearchRecord) -> str:
    """All trials as text: the best one first, then the failed and the unfinished ones.

    Args:
        record: `SearchRecord`.
    """
    best = record.best()
    others = [trial for trial in record.trials if trial.state != COMPLETE]
    names = list(dict.fromkeys(name for trial in record.trials for name in trial.hparams))
    rows = [["trial", record.identity["autotune_objective"], "step", *names]]
    for trial in best + others:
        state = number(trial.value) if trial in best else trial.state
        step = "" if trial.step is None else str(trial.step)
        values = [number(trial.hparams.get(name, "")) for name in names]
        rows.append([f"trial-{trial.number}", state, step, *values])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += [
        f"trial-{trial.number} failed: {_shortened(trial.reason)}"
        for trial in others
        if trial.state == FAILED
    ]
    return "\n".join(lines)


def assignments(trial: Trial) -> str:
    """What a trial tries, in one line."""
    return " ".join(f"{name}={number(value)}" for name, value in trial.hparams.items())


def number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shortened(text):
    return text if len(text) <= _SHOWN_REASON else text[: _SHOWN_REASON - 1] + "…"


_RANDOM_TRIALS = 5  # before the estimator has enough to go by; Optuna's 10 are all of T2T's trials


def check_installed() -> None:
    """Raises `UsageError` if Optuna is missing."""
    try:
        import optuna
    except ImportError as error:
        raise UsageError(
            f"--hparams_range needs Optuna: pip install 'optuna>=4,<5'. Received: {error}."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def propose(
    ranges: Sequence[Any], trials: Sequence[Any], maximize: bool, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Proposes a trial by Optuna's tree-structured Parzen estimator (Bergstra et al. 2011).

    Optuna and not KerasTuner: a proposal can be asked for and the result told later, so the trial
    is an ordinary run of the trainer in a process of its own. KerasTuner wants to build the model,
    call `fit` and hold the trial's state itself. Nothing of Optuna's lasts: its study is made anew
    from the trials for every proposal, with a seed of the search's seed and the trial's number, so
    a search that was killed proposes what it would have proposed.

    Args:
        ranges: tuple of `Range`.
        trials: list of `Trial`, all that there are.
        maximize: bool.
        seed: int.

    Returns:
        (params, hparams), as in `Trial`.
    """
    import optuna

    sampler = optuna.samplers.TPESampler(
        n_startup_trials=_RANDOM_TRIALS, seed=(seed * 1000003 + len(trials)) % 2**32
    )
    study = optuna.create_study(direction="maximize" if maximize else "minimize", sampler=sampler)
    for trial in trials:
        if trial.state == COMPLETE:
            fixed = optuna.trial.FixedTrial(trial.params)
            for item in ranges:
                item.suggest(fixed)
            study.add_trial(
                optuna.trial.create_trial(
                    params=fixed.params, distributions=fixed.distributions, value=trial.value
                )
            )
    asked = study.ask()
    hparams = {item.name: item.suggest(asked) for item in ranges}
    return asked.params, hparams
