"""What to try next: Optuna's tree-structured Parzen estimator over the ranges.

Optuna and not KerasTuner: a proposal can be asked for and the result told later, so the trial is an
ordinary run of the trainer in a process of its own. KerasTuner wants to build the model, call `fit`
and hold the trial's state itself. Nothing of Optuna's lasts: its study is made anew from
`search.json` for every proposal, with a seed of the search's seed and the trial's number, so a
search that was killed proposes what it would have proposed.

References: Bergstra et al. 2011, "Algorithms for Hyper-Parameter Optimization".
"""

from collections.abc import Sequence
from typing import Any

from ut_keras.errors import UsageError
from ut_keras.training.tuning import search_record

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
    """Proposes a trial.

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
        if trial.state == search_record.COMPLETE:
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
