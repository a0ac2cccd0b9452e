"""What a feature holds: the one thing that a model has to know about a problem. No TensorFlow."""

from typing import Literal, NamedTuple


class FeatureSpec(NamedTuple):
    """One feature of an example, as batches deliver it (int32 ids, 0 = padding).

    Fields:
        vocab_size: int. Ids are in [0, vocab_size).
        modality: "symbol": [B, length] ids; "sentences": [B, sentences, words] ids, each sentence
            becomes one position (bAbI); "class_label": [B, 1], one class id, no padding.
        shape: fixed lengths behind the batch axis, where a problem has them ("sentences" does).
    """

    vocab_size: int
    modality: Literal["symbol", "sentences", "class_label"] = "symbol"
    shape: tuple = ()
