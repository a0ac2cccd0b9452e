"""Which tables embed a model's symbols and score what it writes, and who shares one.

    ids ─ source_embedding, target_embedding ─ … ─ softmax or class_label_head ─ logits

One table for all of it, two or three: `shared_embedding_and_softmax_weights`, `shared_embedding`.
"""

from typing import Any

import tensorflow as tf

from ut_keras.layers import class_label_head as class_label_head_lib
from ut_keras.layers import embedding, from_hparams, symbol_ids


class SymbolTables:
    """Comes before `keras.Model` in the bases of a model that has `hparams` and `specs`."""

    source_embedding: Any  # a layer, or None; so are these
    target_embedding: Any
    softmax: Any

    def _make_embeddings(self):
        hp, size = self.hparams, self.hparams.hidden_size
        source, target = self.specs.get("inputs"), self.specs["targets"]
        policy = self.dtype_policy
        self.source_embedding = self.target_embedding = self.softmax = None
        if self.class_labels:
            self.class_label_head = class_label_head_lib.ClassLabelHead(
                target.vocab_size,
                from_hparams.kernel_initializer(hp),
                getattr(hp, "class_label_pooling", "mean"),  # an LSTM's decoder has one position
                name="class_label_head",
                dtype=policy,
            )
        else:
            self.target_embedding = embedding.SymbolEmbedding(
                target.vocab_size, size, name="target_embedding", dtype=policy
            )
            self.softmax = self.target_embedding
            if not self._shares_softmax():
                self.softmax = embedding.SymbolEmbedding(
                    target.vocab_size, self._softmax_size(), name="softmax", dtype=policy
                )
        if source is None:
            return
        if source.modality == "sentences":
            self.source_embedding = embedding.SentenceEmbedding(
                source.vocab_size,
                size,
                source.shape[1],
                hp.sentence_mask_stddev,
                name="source_embedding",
                dtype=policy,
            )
        elif self._shares_embedding():
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = embedding.SymbolEmbedding(
                source.vocab_size, size, name="source_embedding", dtype=policy
            )

    def _softmax_size(self):
        """Width of what is scored."""
        return self.hparams.hidden_size

    def _same_vocabulary(self):
        source, target = self.specs.get("inputs"), self.specs["targets"]
        return source is None or source.vocab_size == target.vocab_size

    def _shares_softmax(self):
        """Whether one table embeds and scores; T2T unsets it where the vocabularies differ."""
        return self.hparams.shared_embedding_and_softmax_weights and self._same_vocabulary()

    def _shares_embedding(self):
        """Whether source and target look up the same table."""
        wanted = self.hparams.shared_embedding or self._shares_softmax()
        return wanted and not self.class_labels and self._same_vocabulary()

    def logits(
        self,
        x: tf.Tensor,
        columns: tf.Tensor | None = None,
        padding_mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Scores: [B, T, D] -> [B, T, V], or [B, C] for classes; float32.

        Args:
            x: float tensor [B, T, D], what the last stack gives.
            columns: `SymbolEmbedding.columns()`, while decoding. Optional.
            padding_mask: bool tensor [B, T], True where there is no padding; for classes. Optional.
        """
        if self.class_labels:
            return self.class_label_head(x, padding_mask)
        return self.softmax.logits(x, columns)

    def _embed_targets(self, ids):
        if self.class_labels:  # a class is not shown to the decoder
            shape = tf.shape(ids)
            return tf.zeros([shape[0], shape[1], self.hparams.hidden_size], self.compute_dtype)
        return self._embed(self.target_embedding, ids)

    @staticmethod
    def _embed(table, ids):
        """Without Keras' mask: what is padding, a model says itself."""
        return tf.identity(table(ids))

    def _ids(self, features, name):
        """The feature, int32. Sentences are checked where they are embedded."""
        ids = symbol_ids.as_ids(features[name], name, self.specs[name].vocab_size)
        if self.specs[name].modality == "class_label" and ids.shape.rank in (None, 1):
            ids = tf.reshape(ids, [-1, 1])
        if ids.shape.rank != 2 and self.specs[name].modality != "sentences":
            raise ValueError(f"{name} must be [batch, length]. Received: {ids.shape}.")
        return ids
