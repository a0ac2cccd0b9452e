"""Compare the current hparams with the hparams that a model was trained with.

    check_same_architecture(saved, hp)      raises if the saved weights do not fit the hparams
    noted = non_defaults(hp)                {"hidden_size": 64, …}, stored with a run
    check_as_trained(saved, noted, path)    raises if hparams.json was edited incompatibly
    notes(saved, hp, path)                  lines that report what a command line changes

A changed hparam can require other weights, change the function that the model computes, or only
change the updates in training.
"""

from typing import Any

from ut_keras.hparam_schema.basic import BasicHParams
from ut_keras.hparam_schema.field import HParamError, specs


def non_defaults(hp: BasicHParams) -> dict[str, Any]:
    """Return the hparams that differ from the defaults, as a dict from name to value."""
    return {
        name: getattr(hp, name)
        for name, spec in specs(type(hp)).items()
        if getattr(hp, name) != spec.default
    }


def check_as_trained(saved: BasicHParams, noted: dict[str, Any] | None, path: str) -> BasicHParams:
    """Check that the hparams of a file still describe the function that was trained.

    Args:
        saved: hparams, the content of the file.
        noted: dict, the result of `non_defaults` for the hparams of the run, or None if it is
            unknown.
        path: str. Name of the file, for the message.

    Returns:
        The hparams with which the run was trained.

    Raises:
        HParamError: if the model would compute another function with the same weights.
    """
    if noted is None:
        return saved
    trained = type(saved)().override(noted)
    changed = differing_names(trained, saved, inference_only=True)
    if changed:
        trained_values = ", ".join(f"{name}={getattr(trained, name)!r}" for name in changed)
        current_values = ", ".join(f"{name}={getattr(saved, name)!r}" for name in changed)
        raise HParamError(
            f"{path} must contain the values that the run was trained with: {trained_values}. "
            f"Received: {current_values}. Restore the file. To use other values in a command, pass "
            "--hparams."
        )
    return trained


def notes(
    trained: BasicHParams, current: BasicHParams, path: str, inference_only: bool = False
) -> list[str]:
    """Return a note for each hparam that differs from the value at training.

    Args:
        trained: the hparams with which the run was trained.
        current: the hparams that are used now.
        path: str. Name of the run's hparams.json.
        inference_only: bool. Whether to skip the fields that only training reads.
    """
    return [
        f"note: {name} is {getattr(current, name)!r}; the run was trained with "
        f"{getattr(trained, name)!r} ({path})"
        for name in differing_names(trained, current, inference_only)
    ]


def check_same_architecture(saved: BasicHParams, current: BasicHParams) -> None:
    """Check that weights trained with `saved` fit a model with the hparams `current`.

    Raises:
        HParamError: if the weights do not fit. The message names every field that differs, with
            both values.
    """
    if _base_class(saved) is not _base_class(current):
        raise HParamError(
            f"The class of the hparams must be the saved one, {type(saved).__name__}. "
            f"Received: {type(current).__name__}."
        )
    saved_values, current_values = saved.architecture(), current.architecture()
    differences = [
        f"{name}={current_values[name]!r} instead of {value!r}"
        for name, value in saved_values.items()
        if name in current_values and value != current_values[name]
    ]
    if differences:
        raise HParamError(
            "The hparams must describe the model of the saved weights. "
            f"Received: {'; '.join(differences)}. Commands without --hparams_set and --hparams use "
            "the run's hparams. Another model requires another output_dir."
        )


def differing_names(
    one: BasicHParams, other: BasicHParams, inference_only: bool = False
) -> list[str]:
    """Return the names of the fields that differ, or [] for different classes.

    Args:
        one, other: hparams.
        inference_only: bool. Whether to skip the fields that only training reads.
    """
    if _base_class(one) is not _base_class(other):
        return []
    both = vars(one).keys() & vars(other).keys()  # a T2T package may add fields to one of them
    names = [n for n in specs(type(one)) if n in both and getattr(one, n) != getattr(other, n)]
    return [n for n in names if not inference_only or _affects_inference(other, n)]


def _base_class(hp):
    """Return the class of hparams without the fields that a T2T package adds."""
    return type(hp).__bases__[0] if hp.ADDED else type(hp)


def _affects_inference(hp, name):
    facts = specs(type(hp))[name].facts
    return name in hp.architecture() or not (facts.training or facts.ignored)
