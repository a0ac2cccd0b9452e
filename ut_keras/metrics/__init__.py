"""T2T's metrics by name, computed on teacher-forced logits.

    total, count = metrics.get("accuracy_per_sequence")(logits, targets)

Every metric is a function of logits [B, T, V] and targets [B, T], and optionally of weights [B],
[B, 1] or [B, T]. For classifiers, logits are [B, C] and targets are [B] or [B, 1]. The function
returns a pair (sum, count) of float32 scalars. The pairs can be added over batches and replicas.
The metric of a dataset is sum / count. The module `bleu` computes the BLEU of files.
"""

from ut_keras.process import silent_tensorflow  # noqa: F401  (before the imports of TensorFlow)

# isort: split
from ut_keras.metrics import (
    approximate,  # noqa: F401  (registers its metrics)
    teacher_forced,
)

get, names = teacher_forced.METRICS.get, teacher_forced.METRICS.names
