"""T2T's utils.metrics: the names of metrics, and their functions."""

import types
from collections.abc import Callable
from typing import Any

_NAMES = """
    neg_log_perplexity masked_neg_log_perplexity rmse unpadded_mse log_poisson pearson
    edit_distance prefix_accuracy word_error_rate set_precision set_recall
    softmax_cross_entropy_one_hot sigmoid_accuracy_one_hot sigmoid_accuracy
    sigmoid_recall_one_hot sigmoid_precision_one_hot sigmoid_cross_entropy_one_hot
    two_class_accuracy two_class_log_likelihood roc_auc image_summary image_rmse
"""
# Those that are not here are left out of an evaluation, which says so.
Metrics: Any = types.SimpleNamespace(
    **{name.upper(): name for name in _NAMES.split()},
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
