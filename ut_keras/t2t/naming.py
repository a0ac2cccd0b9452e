"""Stand-ins for utils.metrics, layers.modalities and names in misc_utils."""

import types
from collections.abc import Callable
from typing import Any

from ut_keras.errors import DataError
from ut_keras.registry import camelcase_to_snakecase  # noqa: F401


def snakecase_to_camelcase(name: str) -> str:
    """Convert a name such as translate_en_fa8k to TranslateEnFa8k."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


class NoSuchName(DataError, AttributeError):
    """A package uses the name of a metric or modality that T2T 1.15 does not have."""


class _NameTable(types.SimpleNamespace):
    """A class of T2T whose attributes are names of metrics or modalities."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoSuchName(f"A package must use names that {self._title} has. Received: {name}.")


def _name_table(title: str, words: str, **others: str) -> Any:
    """Return the `_NameTable` of the class `title`.

    Args:
        title: str. The name of T2T's class.
        words: str, separated by spaces. A word "name" becomes an attribute NAME with value "name".
        **others: attributes whose values differ from their names.
    """
    values = {word.upper(): word for word in words.split()} | others
    return _NameTable(_title=f"{title} of T2T 1.15", **values)


# ut_keras supports SYMBOL and CLASS_LABEL.
ModalityType = _name_table(
    "ModalityType",
    """
    audio audio_spectral class_label ctc_symbol identity identity_symbol image
    image_channel_bottom_identity image_channel_compress image_channel_embeddings_bottom
    multi_label one_hot_class_label real sigmoid_class_label sigmoid_max_pooling_class_label
    softmax_average_pooling_class_label softmax_last_timestep_class_label
    softmax_max_pooling_class_label speech_recognition symbol symbol_weights_all symbol_one_hot
    video video_bitwise video_identity
    """,
    GENERIC_L2_LOSS="generic_l2",
    REAL_L2_LOSS="real_l2",
    REAL_LOG_POISSON_LOSS="real_log_poisson",
)


class OwnModality:
    """Base of the modality classes that a package defines.

    Defining such a class raises no error, because only some problems of the package may need it. A
    problem that uses the class raises an error in `feature_modalities.modality`.
    """


class _ModalityClass(str):
    """A modality class of T2T 1.11 and 1.12.

    In later versions, the class is a name in `ModalityType`.
    """

    __slots__ = ()

    def __mro_entries__(self, bases):
        return (OwnModality,)


SymbolModality = _ModalityClass(ModalityType.SYMBOL)
ClassLabelModality = _ModalityClass(ModalityType.CLASS_LABEL)
# T2T's registry.Modalities, which older problems of T2T use.
Modalities = _name_table("Modalities", "symbol class_label generic image audio real video")
# If ut_keras does not have a metric, an evaluation skips the metric and prints a note.
Metrics = _name_table(
    "Metrics",
    """
    neg_log_perplexity masked_neg_log_perplexity rmse unpadded_mse log_poisson pearson
    edit_distance prefix_accuracy word_error_rate set_precision set_recall
    softmax_cross_entropy_one_hot sigmoid_accuracy_one_hot sigmoid_accuracy
    sigmoid_recall_one_hot sigmoid_precision_one_hot sigmoid_cross_entropy_one_hot
    two_class_accuracy two_class_log_likelihood roc_auc image_summary image_rmse
    """,
    ACC="accuracy",
    ACC_TOP5="accuracy_top5",
    ACC_PER_SEQ="accuracy_per_sequence",
    ACC_MULTILABEL_MATCH3="accuracy_multilabel_match3",
    APPROX_BLEU="approx_bleu_score",
    APPROX_SARI="approx_sari_score",
    R2="r_squared",
    ROUGE_2_F="rouge_2_fscore",
    ROUGE_L_F="rouge_L_fscore",
    DMOL_PERPLEXITY="disc_mol_neg_log_perplexity",
    ABS_ERR="mean_absolute_error",
)


def __getattr__(name: str) -> dict[str, Callable]:
    if name == "METRICS_FNS":
        from ut_keras import metrics  # loads TensorFlow

        return {known: metrics.get(known) for known in metrics.names()}
    raise AttributeError(name)
