"""Hparams that are not those a model was trained with: other weights, another function, or only
other updates.

    check_same_architecture(saved, hp)            weights are useless under some other values
    noted = noted(hp)                             {"hidden_size": 64, …}, kept with a run
    check_as_trained(saved, noted, path)          hparams.json may have been edited by hand
    lines(saved, hp, path)                        what a command line changes, to be said
"""

from typing import Any

from ut_keras.hparam.basic import BasicHParams
from ut_keras.hparam.field import HParamError, specs


def non_defaults(hp: BasicHParams) -> dict[str, Any]:
    """The hparams that differ from the defaults of their class: dict from name to value."""
    return {
        name: getattr(hp, name)
        for name, spec in specs(type(hp)).items()
        if getattr(hp, name) != spec.default
    }


def check_as_trained(saved: BasicHParams, noted: dict[str, Any] | None, path: str) -> BasicHParams:
    """Checks that a file of hparams gives the function that was trained.

    Args:
        saved: hparams, what the file holds.
        noted: dict, what `noted` gave for those that were trained with; None if that is not known.
    Returns:
        The hparams that the run was trained with.
    Raises:
        HParamError: if another function would be computed with the same weights.
    """
    if noted is None:
        return saved
    trained = type(saved)().override(noted)
    changed = differing_names(trained, saved, inference_only=True)
    if changed:
        there = ", ".join(f"{name}={getattr(trained, name)!r}" for name in changed)
        here = ", ".join(f"{name}={getattr(saved, name)!r}" for name in changed)
        raise HParamError(
            f"{path} must contain the values that the run was trained with: {there}. "
            f"Received: {here}. Use --hparams to change a value."
        )
    return trained


def notes(
    there: BasicHParams, here: BasicHParams, path: str, inference_only: bool = False
) -> list[str]:
    """A line for each hparam that is another one than in a file.

    Args:
        there, here: hparams, those of the file and those that are taken.
        inference_only: bool, as of `differing`.
    """
    return [
        f"note: {name} is {getattr(here, name)!r} instead of {getattr(there, name)!r} in {path}"
        for name in differing_names(there, here, inference_only)
    ]


def check_same_architecture(saved: BasicHParams, current: BasicHParams) -> None:
    """Checks that weights trained with `saved` can be used with `current`.

    Raises:
        HParamError: names every field that must not differ, with both values.
    """
    if _base_class(saved) is not _base_class(current):
        raise HParamError(
            f"The class of the hparams must be the saved one, {type(saved).__name__}. "
            f"Received: {type(current).__name__}."
        )
    there, here = saved.architecture(), current.architecture()
    differences = [
        f"{name}={here[name]!r} instead of {value!r}"
        for name, value in there.items()
        if name in here and value != here[name]
    ]
    if differences:
        raise HParamError(
            "The hparams must describe the model of the saved weights (without --hparams_set and "
            "--hparams, the run's hparams are used; another model requires another output_dir). "
            f"Received: {'; '.join(differences)}."
        )


def differing_names(
    one: BasicHParams, other: BasicHParams, inference_only: bool = False
) -> list[str]:
    """The names of hparams that differ; none where they are of two kinds.

    Args:
        one, other: hparams.
        inference_only: bool. Leave out what only training reads.
    """
    if _base_class(one) is not _base_class(other):
        return []
    both = vars(one).keys() & vars(other).keys()  # a package may add others by now
    names = [n for n in specs(type(one)) if n in both and getattr(one, n) != getattr(other, n)]
    return [n for n in names if not inference_only or _affects_inference(other, n)]


def _base_class(hp):
    """The class, without the fields that a package adds."""
    return type(hp).__bases__[0] if hp.ADDED else type(hp)


def _affects_inference(hp, name):
    facts = specs(type(hp))[name].facts
    return name in hp.architecture() or not (facts.training or facts.ignored)
