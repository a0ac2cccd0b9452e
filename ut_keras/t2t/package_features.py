"""Read the text encoders and T2T hparams that a package's problem defines.

    encoders, hparams = package_features.read(t2t, "my_problem", run_hparams, data_dir)

An encoder of T2T becomes an encoder of ut_keras with the same ids. A note names each hparam of the
package that has no effect in ut_keras.
"""

from collections.abc import Mapping
from typing import Any

from ut_keras import hparam_schema
from ut_keras.data import contract
from ut_keras.errors import DataError
from ut_keras.problems import problem
from ut_keras.t2t import (
    feature_modalities,
    missing,
    overridden,
    text_encoder,
    text_problems,
)
from ut_keras.t2t import hparam as t2t_hparam
from ut_keras.t2t import problem as t2t_problem

# The fields of a T2T problem's `hparams` that may change without a note. ut_keras reads all of them
# except stop_at_eos, because its decoding always ends at EOS.
_USED_HPARAMS = {
    *("modality", "vocab_size", "input_modality", "target_modality"),
    *("input_space_id", "target_space_id", "stop_at_eos"),
    *("vocabulary", "was_reversed", "was_copy"),  # `get_hparams` sets them for the package
}


def read(
    t2t: Any, name: str, run_hparams: hparam_schema.BasicHParams | None, data_dir: str | None
) -> tuple[problem.Encoders, t2t_hparam.HParams]:
    """Return (dict from feature name to encoder, the problem's T2T hparams).

    Args:
        t2t: `ut_keras.t2t.problem.Problem`, the problem of the package. The function replaces the
            encoders and hparams that the problem stores.
        name: str. The name of the problem, for notes and errors.
        run_hparams: hparams of the run. None means T2T's defaults.
        data_dir: str. The folder with the vocabulary.

    Raises:
        DataError: if the package returns other types than T2T's, or overrides `get_hparams` for a
            reversed problem or a copy.
    """
    t2t._encoders = t2t._hparams = None
    if run_hparams is None:
        model_hparams = t2t_problem.default_model_hparams()
    else:
        model_hparams = t2t_hparam.from_dataclass(run_hparams)
    model_hparams.data_dir = data_dir
    encoders = _package_encoders(t2t, name, data_dir)
    before = model_hparams.values()
    hparams = _direct_hparams(t2t, name, model_hparams)
    _note_model_hparams(name, before, model_hparams.values())
    contract.check(hparams, contract.T2T_HPARAMS_FIELDS)
    built_in = _to_built_in(encoders, hparams)
    _note_unused_hparams(name, hparams)
    return built_in, hparams


def _direct_hparams(t2t, name, model_hparams):
    """Return the package's hparams before `get_hparams` exchanges inputs and targets.

    ut_keras itself exchanges the features of a reversed problem.
    """
    hparams = t2t.get_hparams(model_hparams)
    if not (t2t._was_reversed or t2t._was_copy):
        return hparams
    if not overridden.is_unchanged(t2t, "get_hparams"):
        raise DataError(
            f"{name}_rev and {name}_copy require a class that does not override get_hparams. "
            f"Received: {type(t2t).__name__}. Override hparams instead."
        )
    return t2t._direct_hparams


def _package_encoders(t2t: Any, name: str, data_dir: str | None) -> Mapping[str, Any]:
    """Return the checked encoders of the package."""
    encoders = t2t.get_feature_encoders(data_dir)
    contract.validated(encoders, contract.FEATURE_ENCODERS, f"feature_encoders of {name}")
    if isinstance(t2t, text_problems.Text2ClassProblem) and "targets" not in encoders:
        return {**encoders, "targets": t2t.label_encoder(data_dir)}
    return encoders


def _to_built_in(encoders: Mapping[str, Any], hparams: t2t_hparam.HParams) -> problem.Encoders:
    """Return encoders of ut_keras with the vocabulary sizes in the hparams."""
    sizes = {name: hparams.vocab_size.get(name) for name in feature_modalities.by_feature(hparams)}
    found, made = {}, {}
    for name, encoder in encoders.items():
        if id(encoder) not in made:  # inputs and targets may share one encoder
            made[id(encoder)] = text_encoder.to_built_in(encoder, sizes.get(name))
        found[name] = made[id(encoder)]
    return found


def _note_model_hparams(name, before, after):
    """Print a note for each hparam of the model that the package has changed."""
    for field, value in after.items():
        if field not in before or value != before[field]:
            missing.print_once(
                f"note: hparams of {name} sets model_hparams.{field}, which has no "
                "effect in ut_keras; use --hparams_set or --hparams"
            )


def _note_unused_hparams(name, hparams):
    """Print a note for each hparam of the problem that has no effect in ut_keras.

    The function skips the hparams that the package does not set.
    """
    default = t2t_problem.default_hparams()
    for field, value in hparams.values().items():
        if field not in _USED_HPARAMS and value != default.get(field):
            missing.print_once(f"note: {field} of {name} has no effect in ut_keras")
