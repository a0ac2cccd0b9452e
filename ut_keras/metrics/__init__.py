"""T2T's metrics by name: how well teacher-forced logits meet the targets.

    total, count = metrics.get("accuracy_per_sequence")(logits, targets)

Every metric is a function of logits [B, T, V] and targets [B, T] (classifiers: [B, C] and [B] or
[B, 1]), and of weights of the data, if there are any, [B], [B, 1] or [B, T]. It gives a pair
(sum, count) of float32 scalars, so that batches, and replicas, add up: the metric of a data set is
sum / count. `bleu` has the BLEU of files.
"""

from ut_keras.metrics import (
    approximate,  # noqa: F401  (registers its metrics)
    teacher_forced,
)

get, names = teacher_forced.METRICS.get, teacher_forced.METRICS.names
