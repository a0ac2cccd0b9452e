"""A search as a study of Optuna's, in `output_dir/search.journal`, and what its trials reached.

    study = open_study(output_dir, {"train_steps": 1000, …})
    trial = next_trial(study, ranges, (), 10)     is in the file before it runs
    study.tell(trial, 0.93)

Optuna and not KerasTuner: a proposal can be asked for and the result told later, so a trial is an
ordinary run of the trainer in a process of its own. KerasTuner wants to build the model, call `fit`
and hold the trial's state itself.
"""

import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ut_keras.errors import UsageError
from ut_keras.files import metrics_file, whole_file

FILENAME = "search.journal"
_RANDOM_TRIALS = 5  # before the estimator has enough to go by; Optuna's 10 are all of T2T's trials


def optuna() -> Any:
    """The package, where it is installed; else a `UsageError`."""
    try:
        import optuna
    except ImportError as error:
        raise UsageError(
            f"--hparams_range needs Optuna: pip install 'ut_keras[tune]'. Received: {error}."
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
    _mend(path)
    # Who was killed while it wrote has left the lock.
    lock = journal.JournalFileOpenLock(path, grace_period=3)
    storage = optuna().storages.JournalStorage(journal.JournalFileBackend(path, lock))
    studies = optuna().get_all_study_summaries(storage)
    if any(study.n_trials and not study.user_attrs for study in studies):
        raise UsageError(f"{path} must hold a search of the trainer. Received: another study.")
    study = optuna().create_study(
        study_name="search",
        storage=storage,
        direction="maximize" if identity["autotune_maximize"] else "minimize",
        load_if_exists=True,
    )
    there = study.user_attrs
    if random_seed is None:
        random_seed = there.get("random_seed", secrets.randbelow(2**31))
    for name, here in {**identity, "random_seed": random_seed}.items():
        if name in there and there[name] == here:
            continue
        has_result = any(trial.value is not None for trial in study.trials)
        may_change = name == "autotune_objective" and not has_result
        if name in there and not may_change:
            raise UsageError(
                f"{output_dir} holds a search with {name}={there[name]!r}; take another "
                f"--output_dir. Received: {name}={here!r}."
            )
        study.set_user_attr(name, here)
    return study


def _mend(path):
    """Removes the torn line of a process that was killed, or a disk that was full, within it."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        content = file.read()
    if content and not content.startswith(b'{"op_code":'):
        raise UsageError(f"{path} must hold a search. Received: {content[:40]!r}.")
    whole_file.unshare(path)
    os.truncate(path, content.rfind(b"\n") + 1)


def next_trial(study: Any, ranges: Sequence[Any], busy: Collection[int], most: int) -> Any:
    """The first trial that has to run: an unfinished one, else a new one, else None.

    It proposes by the tree-structured Parzen estimator (Bergstra et al. 2011), by a seed of the
    search's and the trial's number, so a search that was killed proposes what it would have.

    Args:
        busy: numbers of the trials that run.
        most: how many trials there may be.
    """
    trials = study.trials
    left = (t for t in trials if not t.state.is_finished() and t.number not in busy)
    unfinished = next(left, None)
    if unfinished is None and len(trials) >= most:
        return None
    number = len(trials) if unfinished is None else unfinished.number
    seed = (study.user_attrs["random_seed"] * 1000003 + number) % 2**32
    study.sampler = optuna().samplers.TPESampler(n_startup_trials=_RANDOM_TRIALS, seed=seed)
    resume = optuna().trial.Trial  # one of another process, as `ask` gives its own
    trial = study.ask() if unfinished is None else resume(study, unfinished._trial_id)
    if "hparams" not in trial.user_attrs:
        trial.set_user_attr("hparams", {item.name: item.suggest(trial) for item in ranges})
    return trial


def objective_at_the_end(trial_dir: str, problem_name: str, objective: str) -> tuple[int, float]:
    """Reads the (step, value) of a trial's last evaluation from its `metrics.jsonl`.

    The objective is a name there, or TensorBoard's for it, which T2T takes:
    "metrics-PROBLEM/targets/accuracy" or "metrics-PROBLEM/accuracy".

    Raises:
        UsageError: if no evaluation has it; the names that are there are listed.
    """
    name = objective.removeprefix(f"metrics-{problem_name}/").removeprefix("targets/")
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


def table(study: Any) -> list[str]:
    """A line for each trial: the best one first, then the failed and the unfinished ones."""
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    lines = []
    for trial in sorted(study.trials, key=lambda t: (t.value is None, sign * (t.value or 0))):
        reached = trial.user_attrs.get("reason") or trial.state.name.lower()
        if trial.value is not None:
            reached = f"{study.user_attrs['autotune_objective']}={number(trial.value)}"
        lines.append(f"trial-{trial.number}: {tried(trial)}: {reached}")
    return lines


def tried(trial: Any) -> str:
    """What a trial tries, in one line."""
    hparams = trial.user_attrs.get("hparams", {})
    return " ".join(f"{name}={number(value)}" for name, value in hparams.items())


def number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
