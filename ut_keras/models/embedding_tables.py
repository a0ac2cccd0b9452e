"""Create the embedding tables of a model, and the table or head that computes its logits.

    ids ─ source_embedding, target_embedding ─ … ─ softmax or class_label_head ─ logits

The source embedding, the target embedding and the softmax matrix have one, two or three tables. The
hparams `shared_embedding_and_softmax_weights` and `shared_embedding` decide which of them share a
table.
"""

from collections.abc import Mapping
from typing import Any

from ut_keras.data.features import FeatureSpec
from ut_keras.layers.basic import class_label_head as class_label_head_lib
from ut_keras.layers.basic import embedding, from_hparams


def make(
    hp: Any, specs: Mapping[str, FeatureSpec], dtype_policy: Any, softmax_size: int
) -> tuple[Any, Any, Any, Any]:
    """Return (class_label_head, target_embedding, softmax, source_embedding).

    An element is None if the model does not have this layer.

    Args:
        hp: hparams.
        specs: dict from feature name to `FeatureSpec`.
        dtype_policy: Keras dtype policy.
        softmax_size: int. Size of the states from which logits are computed.
    """
    source, target, size = specs.get("inputs"), specs["targets"], hp.hidden_size
    head = target_embedding = softmax = source_embedding = None
    multiply = hp.multiply_embedding_mode == "sqrt_depth"

    def table(vocab_size, width, name):
        return embedding.SymbolEmbedding(vocab_size, width, multiply, name=name, dtype=dtype_policy)

    if target.modality == "class_label":
        head = class_label_head_lib.ClassLabelHead(
            target.vocab_size,
            # The LSTM models have no such hparam, because their decoder has one position.
            getattr(hp, "class_label_pooling", "mean"),
            kernel_initializer=from_hparams.kernel_initializer(hp),
            name="class_label_head",
            dtype=dtype_policy,
        )
    else:
        target_embedding = softmax = table(target.vocab_size, size, "target_embedding")
        if not shares_softmax(hp, specs):
            softmax = table(target.vocab_size, softmax_size, "softmax")
    if source is not None and source.modality == "sentences":
        source_embedding = embedding.SentenceEmbedding(
            source.vocab_size,
            size,
            source.shape[1],
            hp.sentence_mask_stddev,
            multiply,
            name="source_embedding",
            dtype=dtype_policy,
        )
    elif source is not None and head is None and _shares_embedding(hp, specs):
        source_embedding = target_embedding
    elif source is not None:
        source_embedding = table(source.vocab_size, size, "source_embedding")
    return head, target_embedding, softmax, source_embedding


def shares_softmax(hp: Any, specs: Mapping[str, FeatureSpec]) -> bool:
    """Return whether one table is both the target embedding and the softmax matrix.

    As in T2T, the result is False if source and target have different vocabularies.
    """
    return hp.shared_embedding_and_softmax_weights and _same_vocabulary(specs)


def _shares_embedding(hp, specs):
    """Return whether source and target use the same table."""
    return (hp.shared_embedding or shares_softmax(hp, specs)) and _same_vocabulary(specs)


def _same_vocabulary(specs):
    source = specs.get("inputs")
    return source is None or source.vocab_size == specs["targets"].vocab_size
