"""What a feature holds, and what is measured on it; a problem says both. No TensorFlow."""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

from ut_keras.data import contract
from ut_keras.errors import DataError
from ut_keras.hparam import limits

Modality = Literal["symbol", "sentences", "class_label"]


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
    modality: Modality = "symbol"
    shape: tuple = ()
    default: int | None = None


def check(specs: Mapping[str, FeatureSpec]) -> None:
    """Checks {feature name: `FeatureSpec`}, whoever has written it.

    Raises:
        DataError: if there is no such modality, or a size is none, or there are no targets.
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
            if not is_int or limits.why_not(size, least=1):
                raise DataError(f"The sizes of {name!r} must be positive ints. Received: {spec}.")


class FeatureMetric(NamedTuple):
    """A teacher-forced metric that reads more than logits and targets."""

    # (logits, targets, features) -> (sum, count), float32 scalars that add up over batches and
    # replicas. `features` holds all of the records, those that the model does not read too.
    function: Callable
    finish: Callable = float  # from sum / count to the result, such as `exp` for a perplexity
