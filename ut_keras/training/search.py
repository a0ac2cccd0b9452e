"""Runs a hyperparameter search as an Optuna study in `output_dir/search.journal`.

    study = open_study(output_dir, {"train_steps": 1000, …})
    trial = next_trial(study, ranges, (), 10)     adds a trial to the file before the trial runs
    tell(study, trial, 0.93)                      records the result of the trial

Users may also open the study with Optuna. The search runs the trials that users enqueue, and its
results include the trials that users add.

The search uses Optuna and not KerasTuner. With Optuna, a process can request a proposal and report
the result later. So every trial is an ordinary training run in a separate process. KerasTuner would
build the model, call `fit` and manage the state of the trial.
"""

import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ut_keras.errors import UsageError, UserError
from ut_keras.files import file_error, metrics_file, whole_file
from ut_keras.hparam_schema.field import HParamError
from ut_keras.hparam_schema.ranged_hparams import Range
from ut_keras.process import extras

FILENAME = "search.journal"
# Number of random trials before Optuna's estimator proposes trials. Optuna's default is 10. T2T's
# default for the number of all trials is also 10, so the estimator would never be used.
_RANDOM_TRIALS = 5


def optuna() -> Any:
    """Import the package Optuna.

    Raises:
        UsageError: if Optuna is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise UsageError(
            f"--hparams_range requires Optuna. Received: {error}. {extras.install_hint('tune')}"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def open_study(output_dir: str, identity: Mapping[str, Any], random_seed: int | None = None) -> Any:
    """Return the study in a folder, and create the study if it does not exist.

    Args:
        output_dir: str, an existing folder to which no other process writes.
        identity: dict of JSON values that must stay the same when the search resumes. These values
            become the user attributes of the study. Only "autotune_objective" may change, until
            the first trial is complete.
        random_seed: int. If it is None, an existing study keeps its seed, and a new study gets a
            random seed.

    Returns:
        `optuna.Study`. Its trials have the user attribute "hparams". Failed trials also have the
        user attribute "reason".

    Raises:
        UsageError: if the folder contains another search, or if a file with the name of the journal
            is not a journal.
    """
    journal = optuna().storages.journal
    path = os.path.join(output_dir, FILENAME)
    _remove_incomplete_line(path)
    # A process that was killed while writing leaves a lock file. This file is ignored after 3
    # seconds.
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
    if random_seed is None:
        random_seed = study.user_attrs.get("random_seed", secrets.randbelow(2**31))
    keep_attributes(study, {**identity, "random_seed": random_seed}, output_dir)
    return study


def keep_attributes(study: Any, values: Mapping[str, Any], output_dir: str) -> None:
    """Store values as user attributes of a study, or compare them with stored ones.

    Args:
        study: `optuna.Study`.
        values: dict of JSON values. Only "autotune_objective" may change, until the first trial is
            complete.
        output_dir: str, the folder of the search, for the error message.

    Raises:
        UsageError: if a stored value differs.
    """
    stored = study.user_attrs
    for name, value in values.items():
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


def _remove_incomplete_line(path):
    """Remove an incomplete last line, which a killed process or a full disk may leave."""
    if not os.path.exists(path):
        return
    with file_error.named(path), open(path, "rb") as file:
        content = file.read()
    if content and not content.startswith(b'{"op_code":'):
        raise UsageError(f"{path} must contain a search. Received: {content[:40]!r}.")
    whole_file.break_hard_links(path)
    os.truncate(path, content.rfind(b"\n") + 1)


class RejectedTrial(UserError):
    """The user has enqueued a trial that cannot run.

    Args:
        trial: `optuna.Trial`. Its state is "running", and it has no hparams.
        reason: str, the reason why the trial cannot run.
    """

    def __init__(self, trial: Any, reason: str) -> None:
        super().__init__(reason)
        self.trial = trial


def next_trial(
    study: Any, ranges: Sequence[Range], active_trials: Collection[int], max_trials: int
) -> Any:
    """Add the next trial to the study and return it, or return None if there is none.

    Interrupted trials come first. Then come the trials that the user enqueued, and then new trials.

    The tree-structured Parzen estimator (Bergstra et al. 2011) proposes new trials. Its seed
    depends on the search's seed and the trial's number, so a resumed search proposes the same
    trials as an uninterrupted search. The function replaces the sampler of the study.

    Args:
        study: `optuna.Study`.
        ranges: the searched ranges of the hparams.
        active_trials: numbers of the trials that are running in this search.
        max_trials: maximum number of trials. Trials that the user enqueued always run.

    Raises:
        RejectedTrial: if the user enqueued a trial with hparams that are not searched.
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
        # `study.ask` never returns a trial that another process has started. This call creates the
        # object that `study.ask` would return.
        trial = optuna().trial.Trial(study, running[0]._trial_id)
        if "hparams" in trial.user_attrs:
            return trial
    else:
        trial = study.ask()  # `ask` returns an enqueued trial if there is one
    trial.set_user_attr("hparams", _proposed(trial, ranges))
    return trial


def _proposed(trial, ranges):
    """Return the hparams of a new trial.

    The values that the user enqueued replace the values that the estimator proposes.
    """
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
    # Optuna expects stored values here, for example the index of a value in a list.
    trial._fixed_params = {name: known[name].stored(value) for name, value in chosen.items()}
    proposed = {item.name: item.suggest(trial) for item in ranges}
    return {**proposed, **chosen}


def tell(study: Any, trial: Any, value: float | None, reason: str = "") -> None:
    """Record how a trial ended: with a value, or with a reason for its failure.

    If the user has ended the trial in the meantime, the trial is not changed.
    """
    if study.trials[trial.number].state.is_finished():
        return
    if value is not None:
        study.tell(trial, value)
        return
    trial.set_user_attr("reason", reason)
    study.tell(trial, state=optuna().trial.TrialState.FAIL)


def check_trials(study: Any, ranges: Sequence[Range]) -> None:
    """Check that the trials of the study fit the ranges.

    This check is needed because the user may have added trials.

    Raises:
        UsageError: if a trial stores a parameter in a different form than the ranges do. Optuna
            would then compare values with different meanings.
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
    if not item.is_stored_unchanged:
        return False  # in other ranges, the same stored number represents another value
    try:
        optuna().distributions.check_distribution_compatibility(expected, stored)
    except ValueError:
        return False
    return True


def completed(study: Any) -> list[Any]:
    """Return the trials that have a result, sorted from best to worst."""
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    ended = (trial for trial in study.trials if trial.state.name == "COMPLETE")
    return sorted(ended, key=lambda trial: sign * trial.value)


def reason(trial: Any) -> str:
    """Return the reason why a trial has no result.

    If no reason is recorded, return the state of the trial.
    """
    return str(trial.user_attrs.get("reason") or trial.state.name.lower())


def final_objective(trial_dir: str, objective: str) -> tuple[int, float]:
    """Return (step, value) of a trial's last evaluation in its `metrics.jsonl`.

    Args:
        trial_dir: str, output folder of the trial.
        objective: str, a name in `metrics.jsonl`, or T2T's tag for this name
            (`metrics_file.metric_name`).

    Raises:
        UsageError: if no evaluation contains the objective. The message lists the available names.
    """
    name = metrics_file.metric_name(objective)
    found, known = None, set()
    for record in metrics_file.records(trial_dir, **metrics_file.BY_TRAINING):
        known |= record.keys() - set(metrics_file.NON_METRIC_KEYS)
        if name in record:
            found = record["step"], float(record[name])
    if found is None:
        raise UsageError(
            f"--autotune_objective must be one of {', '.join(sorted(known)) or 'no results'} "
            f"({metrics_file.path(trial_dir)}). Received: {objective!r}."
        )
    return found


def table(study: Any, ranges: Sequence[Range]) -> list[str]:
    """Return one line per trial.

    Trials with a result come first, from best to worst. Failed and unfinished trials follow.
    """
    ended = completed(study)
    objective = study.user_attrs["autotune_objective"]
    reached = {trial.number: f"{objective}={as_text(trial.value)}" for trial in ended}
    others = [trial for trial in study.trials if trial.number not in reached]
    return [
        f"trial-{trial.number}: {tried(trial, ranges)}: "
        f"{reached.get(trial.number) or reason(trial)}"
        for trial in (*ended, *others)
    ]


def tried(trial: Any, ranges: Sequence[Range]) -> str:
    """Return the hparams of a trial in one line."""
    return " ".join(f"{name}={as_text(value)}" for name, value in hparams_of(trial, ranges).items())


def hparams_of(trial: Any, ranges: Sequence[Range]) -> dict[str, Any]:
    """Return the hparams of a trial.

    A trial that the user added has only Optuna's parameters, which are converted to hparams.
    """
    if "hparams" in trial.user_attrs:
        return dict(trial.user_attrs["hparams"])
    known = {item.name: item for item in ranges}
    return {
        name: known[name].value_of(stored) if name in known else stored
        for name, stored in trial.params.items()
    }


def as_text(value: Any) -> str:
    """Return a value as text. A float is rounded to four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
