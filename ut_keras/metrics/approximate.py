"""T2T's BLEU and ROUGE of teacher-forced ids, which are fast to compute.

These scores are useful to monitor training. As in T2T, the scores are approximate for three
reasons:

- They compare subword ids instead of words.
- The model predicts every id from the true ids before it.
- The scores compare padding like any other id.

ROUGE is the mean over the sequences. As in T2T, the module computes BLEU for each batch and
averages it over the batches. With several replicas, the share of a batch on one replica counts as a
batch. The module ignores sequences with weight 0. It also ignores sequences that consist only of
padding, which may fill up a batch. Other weights change ROUGE, but not BLEU. For BLEU as papers
report it, see `bleu`.

References: tensor2tensor/utils/bleu_hook.py, rouge.py; Lin 2004 (ROUGE).
"""

import numpy as np
import tensorflow as tf

from ut_keras.metrics import bleu, teacher_forced
from ut_keras.metrics.teacher_forced import METRICS, Pair, Weights
from ut_keras.ops import maximum

# T2T adds these numbers to avoid 0 / 0.
_EPSILON_2, _EPSILON_L = 1e-8, 1e-12


@METRICS.register("approx_bleu_score")
def approx_bleu_score(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Compute BLEU of the most likely ids, up to 4-grams and with brevity penalty."""
    return _score_sequences(bleu.compute_bleu, logits, targets, weights)


@METRICS.register("rouge_2_fscore")
def rouge_2_fscore(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Compute the F-score of the sets of adjacent id pairs, averaged over sequences."""
    return _score_sequences(rouge_2, logits, targets, weights)


@METRICS.register("rouge_L_fscore")
def rouge_l_fscore(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Compute the F-score of the longest common subsequence, averaged over sequences."""
    return _score_sequences(rouge_l, logits, targets, weights)


def rouge_2(references: np.ndarray, hypotheses: np.ndarray) -> np.ndarray:
    """Return ROUGE-2 [B] of the sequences in two arrays of ids [B, T]."""
    scores = []
    for reference, hypothesis in zip(references.tolist(), hypotheses.tolist(), strict=True):
        reference_pairs = set(zip(reference, reference[1:], strict=False))
        hypothesis_pairs = set(zip(hypothesis, hypothesis[1:], strict=False))
        precision = len(reference_pairs & hypothesis_pairs) / max(1, len(hypothesis_pairs))
        recall = len(reference_pairs & hypothesis_pairs) / max(1, len(reference_pairs))
        scores.append(2 * precision * recall / (precision + recall + _EPSILON_2))
    return np.array(scores)


def rouge_l(references: np.ndarray, hypotheses: np.ndarray) -> np.ndarray:
    """Return ROUGE-L [B] of the sequences in two arrays of ids [B, T].

    F = (1 + b^2) P R / (R + b^2 P),   b = P / R,   P = R = LCS / T if all lengths are T
    """
    recall = common_subsequence_lengths(references, hypotheses) / references.shape[1]
    precision = recall * references.shape[1] / hypotheses.shape[1]
    beta = precision / (recall + _EPSILON_L)
    return (1 + beta**2) * recall * precision / (recall + beta**2 * precision + _EPSILON_L)


def common_subsequence_lengths(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the length [B] of the longest common subsequence of each pair.

    The pairs are the rows of `a` [B, N] and `b` [B, M].

        L[i, j] = max(L[i - 1, j], L[i, j - 1], L[i - 1, j - 1] + 1 if a_i = b_j)

    The function computes one row i of the table L at a time.
    """
    lengths = np.zeros((len(a), b.shape[1] + 1), np.int64)
    for i in range(a.shape[1]):
        extended = np.where(a[:, i : i + 1] == b, lengths[:, :-1] + 1, 0)
        lengths[:, 1:] = np.maximum(lengths[:, 1:], extended)
        lengths = np.maximum.accumulate(lengths, axis=1)
    return lengths[:, -1]


def _score_sequences(score, logits, targets, weights):
    """Return (sum, count) of a numpy score over the sequences with nonzero weight.

    `score(references, hypotheses)` returns either one value per sequence or one value in total. In
    the first case, this function weights the values. In the second case, the count is 1.
    """
    sequence_weights = teacher_forced.sequence_weights(logits, targets, weights)
    logits, targets, _ = teacher_forced.flatten(logits, targets)
    predictions = maximum.argmax(logits)

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
