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


def noted(hp: BasicHParams) -> dict[str, Any]:
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
    changed = [name for name in _differing(trained, saved) if _is_of_the_function(saved, name)]
    if changed:
        there = ", ".join(f"{name}={getattr(trained, name)!r}" for name in changed)
        here = ", ".join(f"{name}={getattr(saved, name)!r}" for name in changed)
        raise HParamError(
            f"{path} must be as the run was trained: {there}. Received: {here}. What is to be "
            "another value is given by --hparams."
        )
    return trained


def lines(
    there: BasicHParams, here: BasicHParams, path: str, of_the_function: bool = False
) -> list[str]:
    """A line for each hparam that is another one than in a file.

    Args:
        there, here: hparams, those of the file and those that are taken.
        of_the_function: bool. Leave out what only training reads.
    """
    if _kind(there) is not _kind(here):
        return []
    return [
        f"{path} had {name}={getattr(there, name)!r}; now {getattr(here, name)!r}"
        for name in _differing(there, here)
        if not of_the_function or _is_of_the_function(here, name)
    ]


def check_same_architecture(saved: BasicHParams, current: BasicHParams) -> None:
    """Checks that weights trained with `saved` can be used with `current`.

    Raises:
        HParamError: names every field that must not differ, with both values.
    """
    if _kind(saved) is not _kind(current):
        raise HParamError(
            f"The hparams must be of the kind that was saved, {type(saved).__name__}. "
            f"Received: {type(current).__name__}."
        )
    there, here = saved.architecture(), current.architecture()
    differences = [
        f"{name} is {value!r} there and {here[name]!r} here"
        for name, value in there.items()
        if name in here and value != here[name]
    ]
    if differences:
        raise HParamError(
            "The saved weights are of another model (change the hparams or the output_dir): "
            f"{'; '.join(differences)}."
        )


def _kind(hp):
    """The class, without the fields that a package adds."""
    return type(hp).__bases__[0] if hp.ADDED else type(hp)


def _differing(one, other):
    both = vars(one).keys() & vars(other).keys()  # a package may add others by now
    return [n for n in specs(type(one)) if n in both and getattr(one, n) != getattr(other, n)]


def _is_of_the_function(hp, name):
    facts = specs(type(hp))[name].facts
    return name in hp.architecture() or not (facts.training or facts.inert)
