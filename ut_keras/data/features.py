"""What a feature holds, and what is measured on it; a problem says both. No TensorFlow."""

from collections.abc import Callable
from typing import Literal, NamedTuple


class FeatureSpec(NamedTuple):
    """One feature of an example, as batches deliver it (int32 ids, 0 = padding).

    Fields:
        vocab_size: int. Ids are in [0, vocab_size).
        modality: "symbol": [B, length] ids; "sentences": [B, sentences, words] ids, each sentence
            becomes one position (bAbI); "class_label": [B, 1], one class id, no padding.
        shape: fixed lengths behind the batch axis, where a problem has them ("sentences" does).
        default: int. What a record without the feature is taken to hold, such as one that T2T
            wrote; None if every record must have it.
    """

    vocab_size: int
    modality: Literal["symbol", "sentences", "class_label"] = "symbol"
    shape: tuple = ()
    default: int | None = None


class FeatureMetric(NamedTuple):
    """A teacher-forced metric that reads more than logits and targets.

    Fields:
        function: (logits, targets, features) -> (sum, count), float32 scalars that add up over
            batches and replicas. `features` holds all features of the records, those that the
            model does not read too.
        finish: from sum / count to the result, such as `exp` for a perplexity.
    """

    function: Callable
    finish: Callable = float
