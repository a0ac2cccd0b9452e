"""Types with which a problem describes its features and its own metrics.

This module does not import TensorFlow.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

from ut_keras.data import contract
from ut_keras.errors import DataError
from ut_keras.hparam_schema import limits

Modality = Literal["symbol", "sentences", "class_label"]


class FeatureSpec(NamedTuple):
    """A description of one feature of the examples: int32 ids, where 0 is padding.

    Fields:
        vocab_size: int. Ids are in [0, vocab_size).
        modality: str. One of the following:
            - "symbol": The feature holds ids [B, length].
            - "sentences": The feature holds ids [B, sentences, words], as in bAbI. The model
              converts each sentence to one position.
            - "class_label": The feature holds one class id, [B, 1], and no padding.
        shape: tuple of int. The sizes of the axes after the batch axis, if these sizes are fixed,
            as for "sentences". If the sizes are not fixed, the tuple is empty.
        default: int. The value of the feature in records that lack it, for example records that T2T
            wrote. None means that every record must have the feature.
    """

    vocab_size: int
    modality: Modality = "symbol"
    shape: tuple = ()
    default: int | None = None


def check(specs: Mapping[str, FeatureSpec]) -> None:
    """Check a dict from feature name to `FeatureSpec`.

    Raises:
        DataError: if a modality is unknown, if a size is not a positive int, or if "targets" is
            missing.
    """
    if "targets" not in specs:
        raise DataError(
            f"The features must include targets. Received: {', '.join(specs) or 'none'}."
        )
    for name, spec in specs.items():
        modalities = contract.one_of(*get_args(Modality))
        contract.validated(spec.modality, modalities, f"The modality of {name!r}")
        for size in (spec.vocab_size, *spec.shape):
            is_int = isinstance(size, int) and not isinstance(size, bool)
            if not is_int or limits.unmet_limit(size, least=1):
                raise DataError(f"The sizes of {name!r} must be positive ints. Received: {spec}.")


class FeatureMetric(NamedTuple):
    """A teacher-forced metric that reads more than logits and targets."""

    # Function (logits, targets, features) -> (sum, count). Both are float32 scalars that can be
    # added over batches and replicas. `features` has all features of the records, including the
    # features that the model does not read.
    function: Callable
    finish: Callable = float  # converts sum / count to the result, for example `exp` for perplexity
