"""A search as a study of Optuna's, in `output_dir/search.journal`, and what its trials reached.

    study = open_study(output_dir, {"train_steps": 1000, …})
    trial = next_trial(study, ranges, (), 10)     is in the file before it runs
    tell(study, trial, 0.93)

A user may call Optuna on the study, too: the search runs an enqueued trial and compares an added
one.

Optuna and not KerasTuner: a proposal can be asked for and the result told later, so a trial is an
ordinary run of the trainer in a process of its own. KerasTuner wants to build the model, call `fit`
and hold the trial's state itself.
"""

import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ut_keras.errors import UsageError, UserError
from ut_keras.files import file_error, metrics_file, whole_file
from ut_keras.hparam.field import HParamError
from ut_keras.hparam.ranges import Range

FILENAME = "search.journal"
_RANDOM_TRIALS = 5  # before the estimator has enough to go by; Optuna's 10 are all of T2T's trials


def optuna() -> Any:
    """The package, where it is installed; else a `UsageError`."""
    try:
        import optuna
    except ImportError as error:
        raise UsageError(
            f"--hparams_range requires Optuna: pip install 'ut_keras[tune]'. Received: {error}."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def open_study(output_dir: str, identity: Mapping[str, Any], random_seed: int | None = None) -> Any:
    """The study of a folder, which is made if there is none.

    Args:
        output_dir: str, an existing folder that nobody else writes to.
        identity: dict of what must not change on the way, of JSON's types; it becomes the study's
            user attributes. "autotune_objective" may, as long as no trial is complete.
        random_seed: int, or None: that of the study, or a new one.

    Returns:
        `optuna.Study`. Its trials have the user attributes "hparams" and, where they failed,
        "reason".

    Raises:
        UsageError: if the folder holds another search, or somebody else's file of that name.
    """
    journal = optuna().storages.journal
    path = os.path.join(output_dir, FILENAME)
    _remove_incomplete_line(path)
    # Who was killed while it wrote has left the lock.
    lock = journal.JournalFileOpenLock(path, grace_period=3)
    storage = optuna().storages.JournalStorage(journal.JournalFileBackend(path, lock))
    studies = optuna().get_all_study_summaries(storage)
    if any(study.n_trials and not study.user_attrs for study in studies):
        raise UsageError(f"{path} must contain a search of the trainer. Received: another study.")
    study = optuna().create_study(
        study_name="search",
        storage=storage,
        direction="maximize" if identity["autotune_maximize"] else "minimize",
        load_if_exists=True,
    )
    stored = study.user_attrs
    if random_seed is None:
        random_seed = stored.get("random_seed", secrets.randbelow(2**31))
    for name, value in {**identity, "random_seed": random_seed}.items():
        if name in stored and stored[name] == value:
            continue
        has_result = any(trial.value is not None for trial in study.trials)
        may_change = name == "autotune_objective" and not has_result
        if name in stored and not may_change:
            raise UsageError(
                f"{name} must be {stored[name]!r}, as in the search in {output_dir}. "
                f"Received: {name}={value!r}. Use another --output_dir for another search."
            )
        study.set_user_attr(name, value)
    return study


def _remove_incomplete_line(path):
    """Removes the torn line of a process that was killed, or a disk that was full, within it."""
    if not os.path.exists(path):
        return
    with file_error.named(path), open(path, "rb") as file:
        content = file.read()
    if content and not content.startswith(b'{"op_code":'):
        raise UsageError(f"{path} must contain a search. Received: {content[:40]!r}.")
    whole_file.unshare(path)
    os.truncate(path, content.rfind(b"\n") + 1)


class RejectedTrial(UserError):
    """A trial that the user enqueued and that cannot run.

    Args:
        trial: `optuna.Trial`, which is running and has no hparams.
        reason: str.
    """

    def __init__(self, trial: Any, reason: str) -> None:
        super().__init__(reason)
        self.trial = trial


def next_trial(
    study: Any, ranges: Sequence[Range], active_trials: Collection[int], max_trials: int
) -> Any:
    """Return the first trial that has to run, or None.

    A trial that was interrupted comes first, then a trial that the user enqueued, then a new one.

    The tree-structured Parzen estimator (Bergstra et al. 2011) proposes. Its seed depends on the
    search's seed and the trial's number, so a search that was killed proposes what it would have.

    Args:
        study: `optuna.Study`.
        ranges: what is searched.
        busy: numbers of the trials that run.
        most: how many trials there may be; a trial that the user enqueued runs in any case.

    Raises:
        RejectedTrial: if the user enqueued a trial with other hparams than the ranges have.
    """
    trials = study.trials
    running = [t for t in trials if t.state.name == "RUNNING" and t.number not in active_trials]
    waiting = [t for t in trials if t.state.name == "WAITING"]
    if not running and not waiting and len(trials) >= max_trials:
        return None
    number = next((t.number for t in (*running, *waiting)), len(trials))
    seed = (study.user_attrs["random_seed"] * 1000003 + number) % 2**32
    study.sampler = optuna().samplers.TPESampler(n_startup_trials=_RANDOM_TRIALS, seed=seed)
    if running:
        # What `ask` returns, of a trial of another process.
        trial = optuna().trial.Trial(study, running[0]._trial_id)
        if "hparams" in trial.user_attrs:
            return trial
    else:
        trial = study.ask()  # takes an enqueued trial first
    trial.set_user_attr("hparams", _proposed(trial, ranges))
    return trial


def _proposed(trial, ranges):
    """The hparams of a trial: those that the user enqueued, and proposals for the others."""
    enqueued = trial.study.trials[trial.number].system_attrs.get("fixed_params", {})
    known = {item.name: item for item in ranges}
    if unknown := next((name for name in enqueued if name not in known), None):
        raise RejectedTrial(
            trial,
            f"An enqueued trial must only set the searched hparams: {', '.join(known)}. "
            f"Received: {unknown}={enqueued[unknown]!r}.",
        )
    try:
        chosen = {name: known[name].checked(value) for name, value in enqueued.items()}
    except HParamError as error:
        raise RejectedTrial(trial, str(error)) from error
    # Optuna would take the user's values for what it stores itself, such as positions.
    trial._fixed_params = {name: known[name].stored(value) for name, value in chosen.items()}
    proposed = {item.name: item.suggest(trial) for item in ranges}
    return {**proposed, **chosen}


def tell(study: Any, trial: Any, value: float | None, reason: str = "") -> None:
    """Record how a trial ended: with a value, or failed for a reason.

    A trial that the user has ended in the meantime stays as it is.
    """
    if study.trials[trial.number].state.is_finished():
        return
    if value is not None:
        study.tell(trial, value)
        return
    trial.set_user_attr("reason", reason)
    study.tell(trial, state=optuna().trial.TrialState.FAIL)


def check_trials(study: Any, ranges: Sequence[Range]) -> None:
    """Check that the study's trials, some of which the user may have added, fit the ranges.

    Raises:
        UsageError: if a trial has a parameter that Optuna would compare with other values.
    """
    scratch = optuna().create_study().ask()
    for item in ranges:
        item.suggest(scratch)
    expected = scratch.distributions
    for trial in study.trials:
        for item in ranges:
            stored = trial.distributions.get(item.name, expected[item.name])
            if not _fits(item, expected[item.name], stored):
                raise UsageError(
                    f"The trials in {FILENAME} must search {item}, stored as "
                    f"{expected[item.name]}. "
                    f"Received: trial-{trial.number} with {item.name} stored as {stored}. "
                    "Use another --output_dir for another search."
                )


def _fits(item, expected, stored):
    if expected == stored:
        return True
    if not item.is_stored_as_it_is:
        return False  # the same stored number would be another value
    try:
        optuna().distributions.check_distribution_compatibility(expected, stored)
    except ValueError:
        return False
    return True


def completed(study: Any) -> list[Any]:
    """Return the trials that have a result, the best first."""
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    ended = (trial for trial in study.trials if trial.state.name == "COMPLETE")
    return sorted(ended, key=lambda trial: sign * trial.value)


def reason(trial: Any) -> str:
    """Return why a trial has no result, or its state."""
    return str(trial.user_attrs.get("reason") or trial.state.name.lower())


def final_objective(trial_dir: str, objective: str) -> tuple[int, float]:
    """Reads the (step, value) of a trial's last evaluation from its `metrics.jsonl`.

    The objective is a name there, or T2T's tag for it, as of `metrics_file.name_of`.

    Raises:
        UsageError: if no evaluation has it; the names that are there are listed.
    """
    name = metrics_file.name_of(objective)
    found, known = None, set()
    for record in metrics_file.records(trial_dir, **metrics_file.OF_TRAINING):
        known |= record.keys() - set(metrics_file.NO_METRICS)
        if name in record:
            found = record["step"], float(record[name])
    if found is None:
        raise UsageError(
            f"--autotune_objective must be one of {', '.join(sorted(known)) or 'no results'} "
            f"({metrics_file.path(trial_dir)}). Received: {objective!r}."
        )
    return found


def table(study: Any, ranges: Sequence[Range]) -> list[str]:
    """Return a line for each trial: the best one first, then the failed and unfinished ones."""
    ended = completed(study)
    objective = study.user_attrs["autotune_objective"]
    reached = {trial.number: f"{objective}={number(trial.value)}" for trial in ended}
    others = [trial for trial in study.trials if trial.number not in reached]
    return [
        f"trial-{trial.number}: {tried(trial, ranges)}: "
        f"{reached.get(trial.number) or reason(trial)}"
        for trial in (*ended, *others)
    ]


def tried(trial: Any, ranges: Sequence[Range]) -> str:
    """Return what a trial tries, in one line."""
    return " ".join(f"{name}={number(value)}" for name, value in hparams_of(trial, ranges).items())


def hparams_of(trial: Any, ranges: Sequence[Range]) -> dict[str, Any]:
    """Return the hparams of a trial; a trial that the user added has Optuna's parameters only."""
    if "hparams" in trial.user_attrs:
        return dict(trial.user_attrs["hparams"])
    known = {item.name: item for item in ranges}
    return {
        name: known[name].value_of(stored) if name in known else stored
        for name, stored in trial.params.items()
    }


def number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
