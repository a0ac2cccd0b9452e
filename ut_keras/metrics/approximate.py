"""T2T's BLEU and ROUGE of teacher-forced ids: quick to compute, good for watching a run.

"Approximate", because they compare subword ids and not words, because every id is predicted from
the true ones before it, and because, as in T2T, padding is compared like any id. ROUGE is the mean
over rows; BLEU, which is no mean over rows, is T2T's mean over batches, and a replica's share of a
batch counts as one. Rows that are all padding, with which batches may be filled up, are left out,
and so are rows of weight 0; other weights change ROUGE, but not BLEU.
For BLEU as papers report it, see `bleu`.

References: tensor2tensor/utils/bleu_hook.py, rouge.py; Lin 2004 (ROUGE).
"""

import numpy as np
import tensorflow as tf

from ut_keras.metrics import bleu, teacher_forced
from ut_keras.metrics.teacher_forced import METRICS, Pair, Weights

# T2T's guards against 0 / 0.
_EPSILON_2, _EPSILON_L = 1e-8, 1e-12


@METRICS.register("approx_bleu_score")
def approx_bleu_score(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """BLEU up to 4-grams, with brevity penalty, of the ids with the largest logits."""
    return _score_sequences(bleu.compute_bleu, logits, targets, weights)


@METRICS.register("rouge_2_fscore")
def rouge_2_fscore(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """F-score of the sets of pairs of neighbouring ids; mean over the rows."""
    return _score_sequences(rouge_2, logits, targets, weights)


@METRICS.register("rouge_L_fscore")
def rouge_l_fscore(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """F-score of the longest common subsequence; mean over the rows."""
    return _score_sequences(rouge_l, logits, targets, weights)


def rouge_2(references: np.ndarray, hypotheses: np.ndarray) -> np.ndarray:
    """ROUGE-2 of each row of ids, two arrays [B, T]; [B]."""
    scores = []
    for reference, hypothesis in zip(references.tolist(), hypotheses.tolist(), strict=True):
        reference_pairs = set(zip(reference, reference[1:], strict=False))
        hypothesis_pairs = set(zip(hypothesis, hypothesis[1:], strict=False))
        precision = len(reference_pairs & hypothesis_pairs) / max(1, len(hypothesis_pairs))
        recall = len(reference_pairs & hypothesis_pairs) / max(1, len(reference_pairs))
        scores.append(2 * precision * recall / (precision + recall + _EPSILON_2))
    return np.array(scores)


def rouge_l(references: np.ndarray, hypotheses: np.ndarray) -> np.ndarray:
    """ROUGE-L of each row of ids, two arrays [B, T]; [B].

    F = (1 + b^2) P R / (R + b^2 P),   b = P / R,   P = R = LCS / T for rows of one length
    """
    recall = common_subsequence_lengths(references, hypotheses) / references.shape[1]
    precision = recall * references.shape[1] / hypotheses.shape[1]
    beta = precision / (recall + _EPSILON_L)
    return (1 + beta**2) * recall * precision / (recall + beta**2 * precision + _EPSILON_L)


def common_subsequence_lengths(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Length of the longest common subsequence of every row of `a` [B, N] and `b` [B, M]; [B].

    L[i, j] = max(L[i - 1, j], L[i, j - 1], L[i - 1, j - 1] + 1 if a_i = b_j), a row i at a time.
    """
    lengths = np.zeros((len(a), b.shape[1] + 1), np.int64)
    for i in range(a.shape[1]):
        extended = np.where(a[:, i : i + 1] == b, lengths[:, :-1] + 1, 0)
        lengths[:, 1:] = np.maximum(lengths[:, 1:], extended)
        lengths = np.maximum.accumulate(lengths, axis=1)
    return lengths[:, -1]


def _score_sequences(score, logits, targets, weights):
    """(sum, count) of `score(references, hypotheses)`, of the numpy rows that count.

    What it gives for each row is weighed; one score of all of them counts as 1.
    """
    sequence_weights = teacher_forced.sequence_weights(logits, targets, weights)
    logits, targets, _ = teacher_forced.flatten(logits, targets)
    predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)

    def compute(references, hypotheses, weights):
        rows = references.any(axis=1) & (weights != 0)
        if not rows.any():
            return np.zeros(2, np.float32)
        scores = score(references[rows], hypotheses[rows])
        counts = weights[rows] if np.ndim(scores) else np.ones(1)
        return np.array([(scores * counts).sum(), counts.sum()], np.float32)

    inputs = [targets, predictions, sequence_weights]
    pair = tf.numpy_function(compute, inputs, tf.float32, stateful=False)
    pair.set_shape([2])
    return pair[0], pair[1]
