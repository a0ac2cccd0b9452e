"""Convert T2T's names of modalities in packages to those of ut_keras.

by_feature(hparams)                       {"inputs": "symbol", "targets": "multi_label"}
modality("targets", "multi_label", "mine")    DataError: no model supports it
"""

import collections
import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ut_keras.data import features
from ut_keras.errors import DataError
from ut_keras.t2t import hparam, naming, problem, text_encoder
from ut_keras.t2t.naming import ModalityType

_MODALITIES: dict[str, features.Modality] = {
    ModalityType.SYMBOL: "symbol",
    ModalityType.CLASS_LABEL: "class_label",
}


def modality(feature: str, kind: str, title: str) -> features.Modality:
    """Return the modality of a feature in ut_keras.

    Args:
        feature: str. Name of the feature, for the error.
        kind: str. T2T's name of the modality. It may also be a class of the package.
        title: str. Name of the problem, for the error.

    Raises:
        DataError: if no model supports the modality.
    """
    own = kind if isinstance(kind, type) else type(kind)
    if issubclass(own, naming.OwnModality):
        raise DataError(
            f"The {feature} of {title} must be ModalityType.SYMBOL or ModalityType.CLASS_LABEL. A "
            f"package cannot define a modality of its own. Received: {own.__name__}."
        )
    if kind not in _MODALITIES:
        raise DataError(
            f"The inputs and targets of {title} must be {' or '.join(_MODALITIES)}. "
            f"Received: {feature}, {kind}."
        )
    return _MODALITIES[kind]


def by_feature_without_vocabulary(t2t: problem.Problem, data_dir: str | None) -> dict[str, str]:
    """Return {feature: T2T's modality} before the vocabulary exists.

    The function calls the package's method `hparams` with placeholders for the missing encoders.
    If this call raises an error, the result is {}.
    """
    t2t = copy.copy(t2t)
    t2t._encoders = collections.defaultdict(text_encoder.ByteTextEncoder)
    hparams, model_hparams = problem.default_hparams(), problem.default_model_hparams()
    model_hparams.data_dir = data_dir
    try:
        t2t.hparams(hparams, model_hparams)
        return dict(by_feature(hparams))
    except Exception:  # the package may need a vocabulary or the hparams of a run
        return {}


def class_features(t2t: problem.Problem, data_dir: str | None) -> list[str]:
    """Return which of inputs and targets are class labels, before data generation.

    If the package's `hparams` needs a vocabulary that does not exist yet, the result is [], and
    `Adapted.feature_specs` performs the check later.

    Raises:
        DataError: if no model supports the modality of inputs or targets.
    """
    found = by_feature_without_vocabulary(t2t, data_dir)
    words = {
        name: modality(name, found[name], t2t.name)
        for name in ("inputs", "targets")
        if name in found
    }
    return [name for name, word in words.items() if word == "class_label"]


def by_feature(hparams: hparam.HParams) -> dict[str, str]:
    """Return {feature: T2T's modality}.

    Older problems of T2T store the modality together with the vocabulary size. For such a problem,
    this function moves them to `hparams.modality` and `hparams.vocab_size`.
    """
    if hparams.modality or not hparams.target_modality:
        return hparams.modality
    pairs = {**hparams.input_modality, "targets": hparams.target_modality}
    hparams.vocab_size = {name: size for name, (_, size) in pairs.items()}
    # "class_label:multi_label" is a different modality from "class_label".
    hparams.modality = {n: kind.removesuffix(":default") for n, (kind, _) in pairs.items()}
    return hparams.modality


def vocab_sizes(hparams: hparam.HParams, encoders: Mapping[str, Any]) -> dict[str, int | None]:
    """Return {feature: vocabulary size}, with None for an unknown size.

    Args:
        hparams: `HParams` of a problem.
        encoders: dict from features to encoders.
    """
    return {
        name: hparams.vocab_size.get(name) or getattr(encoders.get(name), "vocab_size", None)
        for name in by_feature(hparams)
    }


def check_one_class(ids: Sequence[int], feature: str, title: str) -> None:
    """Check that a record has one class in a feature of the modality class_label.

    Args:
        ids: list of int. The values of the feature.
        feature: str. Name of the feature, for the error.
        title: str. Name of the problem, for the error.

    Raises:
        DataError: if there is not exactly one class.
    """
    if len(ids) != 1:
        raise DataError(
            f"The {feature} of {title} must be one class per record, because their modality is "
            f"class_label; several labels are not supported. Received: {ids}."
        )
