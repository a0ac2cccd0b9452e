"""Create a model's embedding tables, and the table or head of its logits.

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
    target = specs["targets"]
    if target.modality == "class_label":
        head = class_label_head_lib.ClassLabelHead(
            target.vocab_size,
            # The LSTM models have no such hparam, because their decoder has one position.
            getattr(hp, "class_label_pooling", "mean"),
            kernel_initializer=from_hparams.kernel_initializer(hp),
            name="class_label_head",
            dtype=dtype_policy,
        )
        return head, None, None, _source_embedding(hp, specs, dtype_policy)
    size, name = hp.hidden_size, "target_embedding"
    target_embedding = softmax = _table(hp, target.vocab_size, size, name, dtype_policy)
    if not shares_softmax(hp, specs):
        softmax = _table(hp, target.vocab_size, softmax_size, "softmax", dtype_policy)
    source_embedding = _source_embedding(hp, specs, dtype_policy, target_embedding)
    return None, target_embedding, softmax, source_embedding


def _source_embedding(hp, specs, dtype_policy, target_embedding=None):
    """Return the embedding of the source, or None if there is no source.

    The result may be `target_embedding`. `target_embedding` is None if the targets are classes.
    """
    source = specs.get("inputs")
    if source is None:
        return None
    if source.modality == "sentences":
        return embedding.SentenceEmbedding(
            source.vocab_size,
            hp.hidden_size,
            source.shape[1],
            hp.sentence_mask_stddev,
            _multiplies(hp),
            name="source_embedding",
            dtype=dtype_policy,
        )
    if target_embedding is not None and _shares_embedding(hp, specs):
        return target_embedding
    return _table(hp, source.vocab_size, hp.hidden_size, "source_embedding", dtype_policy)


def _table(hp, vocab_size, width, name, dtype_policy):
    return embedding.SymbolEmbedding(
        vocab_size, width, _multiplies(hp), name=name, dtype=dtype_policy
    )


def _multiplies(hp):
    """Return whether embeddings are multiplied by sqrt(hidden_size)."""
    return hp.multiply_embedding_mode == "sqrt_depth"


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
