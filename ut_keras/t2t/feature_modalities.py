"""Of which kind the features of a package's problem are: T2T's modalities, and our words for them.

by_feature(hparams)                       {"inputs": "symbol", "targets": "multi_label"}
modality("targets", "multi_label", "mine")    DataError: no model reads it
"""

import collections
import copy

from ut_keras.data import features
from ut_keras.errors import DataError
from ut_keras.t2t import hparam, problem, text_encoder
from ut_keras.t2t.naming import ModalityType

_MODALITIES: dict[str, features.Modality] = {
    ModalityType.SYMBOL: "symbol",
    ModalityType.CLASS_LABEL: "class_label",
}


def modality(feature: str, kind: str, title: str) -> features.Modality:
    """Our word for the kind of a feature; raises DataError, of problem `title`, without one."""
    if kind not in _MODALITIES:
        raise DataError(
            f"The inputs and targets of {title} must be {' or '.join(_MODALITIES)}. "
            f"Received: {feature}, {kind}."
        )
    return _MODALITIES[kind]


def by_feature_without_vocabulary(t2t: problem.Problem, data_dir: str | None) -> dict[str, str]:
    """The kinds before there is a vocabulary; {} where they cannot be told.

    `hparams` of the package is called with encoders that stand for those which are not there yet.
    """
    t2t = copy.copy(t2t)
    t2t._encoders = collections.defaultdict(text_encoder.ByteTextEncoder)
    hparams, model_hparams = problem.default_hparams(), problem.default_model_hparams()
    model_hparams.data_dir = data_dir
    try:
        t2t.hparams(hparams, model_hparams)
        return dict(by_feature(hparams))
    except Exception:  # it may need a vocabulary, or a run
        return {}


def by_feature(hparams: hparam.HParams) -> dict[str, str]:
    """{feature: kind}; T2T's older problems say it together with the vocabulary's size."""
    if hparams.modality or not hparams.target_modality:
        return hparams.modality
    pairs = {**hparams.input_modality, "targets": hparams.target_modality}
    hparams.vocab_size = {name: size for name, (_, size) in pairs.items()}
    # "class_label:multi_label" is another kind than "class_label".
    hparams.modality = {n: kind.removesuffix(":default") for n, (kind, _) in pairs.items()}
    return hparams.modality
