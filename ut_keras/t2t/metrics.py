"""T2T's utils.metrics: the names of metrics, and their functions."""

from collections.abc import Callable


class Metrics:
    """T2T's names; those that are not here are left out of an evaluation, which says so."""

    ACC = "accuracy"
    ACC_TOP5 = "accuracy_top5"
    ACC_PER_SEQ = "accuracy_per_sequence"
    ACC_MULTILABEL_MATCH3 = "accuracy_multilabel_match3"
    NEG_LOG_PERPLEXITY = "neg_log_perplexity"
    MASKED_NEG_LOG_PERPLEXITY = "masked_neg_log_perplexity"
    APPROX_BLEU = "approx_bleu_score"
    APPROX_SARI = "approx_sari_score"
    RMSE = "rmse"
    UNPADDED_MSE = "unpadded_mse"
    LOG_POISSON = "log_poisson"
    PEARSON = "pearson"
    R2 = "r_squared"
    ROUGE_2_F = "rouge_2_fscore"
    ROUGE_L_F = "rouge_L_fscore"
    EDIT_DISTANCE = "edit_distance"
    PREFIX_ACCURACY = "prefix_accuracy"
    WORD_ERROR_RATE = "word_error_rate"
    SET_PRECISION = "set_precision"
    SET_RECALL = "set_recall"
    SOFTMAX_CROSS_ENTROPY_ONE_HOT = "softmax_cross_entropy_one_hot"
    SIGMOID_ACCURACY_ONE_HOT = "sigmoid_accuracy_one_hot"
    SIGMOID_ACCURACY = "sigmoid_accuracy"
    SIGMOID_RECALL_ONE_HOT = "sigmoid_recall_one_hot"
    SIGMOID_PRECISION_ONE_HOT = "sigmoid_precision_one_hot"
    SIGMOID_CROSS_ENTROPY_ONE_HOT = "sigmoid_cross_entropy_one_hot"
    TWO_CLASS_ACCURACY = "two_class_accuracy"
    TWO_CLASS_LOG_LIKELIHOOD = "two_class_log_likelihood"
    ROC_AUC = "roc_auc"
    IMAGE_SUMMARY = "image_summary"
    DMOL_PERPLEXITY = "disc_mol_neg_log_perplexity"
    ABS_ERR = "mean_absolute_error"
    IMAGE_RMSE = "image_rmse"


def __getattr__(name: str) -> dict[str, Callable]:
    if name == "METRICS_FNS":
        from ut_keras import metrics  # loads TensorFlow

        return {known: metrics.get(known) for known in metrics.names()}
    raise AttributeError(name)
