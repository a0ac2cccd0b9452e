"""Embeddings of tokens, of sentences as bags of words, and of target spaces."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic import id_checks
from ut_keras.layers.basic.dense import WithKernels
from ut_keras.layers.basic.layer import Layer, PositionWise
from ut_keras.layers.basic.signature import Shape
from ut_keras.ops import devices, litert, private_api


@keras.saving.register_keras_serializable(package="ut_keras")
class SymbolEmbedding(Layer):
    """A table of token embeddings, which also serves as the softmax matrix.

    A call multiplies the embeddings by sqrt(D). The method `logits` does not use this factor. The
    embedding of id 0, which is padding, is the zero vector. The layer computes a Keras mask, like
    `Embedding(mask_zero=True)`.

        embedding = SymbolEmbedding(vocab_size=32, hidden_size=8)
        x = embedding(tf.constant([[5, 3, 1, 0]]))     # [1, 4, 8]
        logits = embedding.logits(x)                   # [1, 4, 32]

    Args:
        vocab_size: int V.
        hidden_size: int D.
        multiply: bool. Whether a call multiplies the embeddings by sqrt(D).

    Call arguments:
        ids: int tensor of any shape.

    Returns:
        float tensor [..., D]. For an id out of range, TensorFlow raises an error on a CPU. On other
        devices and under XLA, the embedding of such an id is NaN.

    References: Vaswani et al. 2017, section 3.4; T2T `modalities.symbol_bottom`, `symbol_top`.
    """

    def __init__(
        self, vocab_size: int, hidden_size: int, multiply: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.multiply = multiply

    def build(self, ids_shape: Shape | None = None) -> None:
        self.embedding = self.add_weight(
            name="weights",
            shape=(self.vocab_size, self.hidden_size),
            initializer=keras.initializers.RandomNormal(stddev=self.hidden_size**-0.5),
            autocast=False,  # `call` casts the embeddings of the ids, not the complete table
        )

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        ids = id_checks.as_ids(ids, "ids")
        scale = tf.where(ids != 0, self.hidden_size**0.5 if self.multiply else 1.0, 0.0)
        if private_api.is_compiled_by_xla() or devices.has_gpu():
            # There, a gather does not raise an error for an id out of range.
            scale = tf.where((ids >= 0) & (ids < self.vocab_size), scale, float("nan"))
        rows = litert.lookup(tf.convert_to_tensor(self.embedding), ids)
        rows = tf.cast(rows, self.compute_dtype)
        return rows * tf.cast(scale, rows.dtype)[..., tf.newaxis]

    def compute_mask(self, ids: tf.Tensor, previous_mask: tf.Tensor | None) -> tf.Tensor:
        return ids != 0

    def logits(self, x: tf.Tensor, columns: tf.Tensor | None = None) -> tf.Tensor:
        """Compute the logit of every token.

        Args:
            x: float tensor [B, T, D].
            columns: the result of the method `columns`. Optional. This argument saves time in
                repeated calls with few positions, as in decoding.

        Returns:
            float32 tensor [B, T, V].
        """
        rows = tf.reshape(x, [-1, self.hidden_size])
        if columns is None:
            table = tf.cast(tf.convert_to_tensor(self.embedding), x.dtype)
            flat = tf.matmul(rows, table, transpose_b=True)
        else:
            flat = tf.matmul(rows, columns)
        shape = tf.shape(x)
        scores = tf.reshape(flat, [shape[0], shape[1], self.vocab_size])
        return tf.cast(scores, tf.float32)

    def columns(self) -> tf.Tensor:
        """Return the transposed table, [D, V]."""
        table = tf.cast(tf.convert_to_tensor(self.embedding), self.compute_dtype)
        return tf.transpose(table)

    def compute_output_shape(self, ids_shape: Shape) -> Shape:
        return (*ids_shape, self.hidden_size)


@keras.saving.register_keras_serializable(package="ut_keras")
class SentenceEmbedding(Layer):
    """Embeds each sentence as a weighted sum of word embeddings.

        m_i = sum_j f_j * w_ij      (the bAbI encoding of Dehghani et al. 2019, section 3.1)

    w_ij is the embedding of word j in sentence i. f_j is a learned weight vector of word position
    j. The paper calls f the mask. f encodes the order of the words. The layer has two masks, one
    for the sentences of the story and one for the question. The question is the last sentence with
    words. A sentence without words becomes the zero vector, and its entry in the Keras mask is
    False.

    The authors initialize the masks with 1. With these masks, an untrained model cannot distinguish
    "a is east of b" from "b is east of a", and learns this distinction only slowly. On bAbI's tasks
    17 and 19, the loss does not improve for thousands of updates. Random initial masks around 1
    (mask_stddev > 0) encode the order from the beginning.

    Args:
        vocab_size: int V.
        hidden_size: int D.
        max_words: int. Number of words per sentence, including padding.
        mask_stddev: float >= 0. Standard deviation of the initial masks around 1. The authors use
            0.
        multiply: bool. As in `SymbolEmbedding`.

    Call arguments:
        ids: int tensor [B, sentences, max_words].

    Returns:
        float tensor [B, sentences, D].

    Raises:
        ValueError: if `ids` does not have the shape above.

    References: the authors' bAbI-T2T code. See problems/babi_qa.py.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        max_words: int,
        mask_stddev: float = 0.0,
        multiply: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.max_words = max_words
        self.mask_stddev = mask_stddev
        self.multiply = multiply

    def build(self, ids_shape: Shape | None = None) -> None:
        self.words = SymbolEmbedding(
            self.vocab_size, self.hidden_size, self.multiply, name="words", dtype=self.dtype_policy
        )
        self.words.build()
        self.story_mask = self._mask("story_mask")
        self.question_mask = self._mask("question_mask")

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        if ids.shape.rank != 3 or ids.shape[2] != self.max_words:
            raise ValueError(
                f"inputs must be [batch, sentences, {self.max_words}]. Received: {ids.shape}."
            )
        has_words = tf.cast(tf.reduce_any(ids != 0, axis=2), ids.dtype)
        is_question = has_words * tf.cast(
            tf.cumsum(has_words, axis=1, reverse=True) == 1, ids.dtype
        )
        is_question = is_question[:, :, tf.newaxis]  # [B, sentences, 1], 1 at the question
        # Masking the ids is cheaper than masking the embeddings, because the embeddings and their
        # gradients are much larger.
        story = self._encode_sentences(ids * (1 - is_question), self.story_mask)
        question = self._encode_sentences(
            tf.reduce_sum(ids * is_question, axis=1), self.question_mask
        )
        return story + tf.cast(is_question, story.dtype) * question[:, tf.newaxis]

    def compute_mask(self, ids: tf.Tensor, previous_mask: tf.Tensor | None) -> tf.Tensor:
        return keras.ops.any(ids != 0, axis=2)  # this function also accepts symbolic ids

    def _encode_sentences(self, ids, mask):
        """Embed sentences with one of the masks: word ids [..., max_words] -> [..., D]."""
        vectors = self.words(ids)
        return tf.reduce_sum(vectors * tf.cast(tf.convert_to_tensor(mask), vectors.dtype), axis=-2)

    def _mask(self, name):
        start = "ones"
        if self.mask_stddev:
            start = keras.initializers.RandomNormal(1.0, self.mask_stddev)
        return self.add_weight(
            name=name, shape=(self.max_words, self.hidden_size), initializer=start
        )

    def compute_output_shape(self, ids_shape: Shape) -> Shape:
        return (*ids_shape[:2], self.hidden_size)


@keras.saving.register_keras_serializable(package="ut_keras")
class TargetSpaceEmbedding(WithKernels, PositionWise):
    """Adds the learned vector of a target space to every position, including padding.

    A target space is the kind of the targets, such as a language. T2T numbers the target spaces.

    Args:
        target_space_id: int in [0, 32). T2T's `SpaceID` of the targets.
        kernel_initializer: Keras initializer of the table. The table has one row per target space.

    Call arguments:
        x: float tensor [B, S, D], the embedded source.

    Returns:
        Tensor like `x`.

    Raises:
        ValueError: if target_space_id is out of range.

    References: T2T `transformer_layers.transformer_prepare_encoder`.
    """

    NUM_SPACES = 32

    def __init__(self, target_space_id: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= target_space_id < self.NUM_SPACES:
            raise ValueError(
                f"target_space_id must be in [0, {self.NUM_SPACES}). Received: {target_space_id}."
            )
        self.target_space_id = target_space_id

    def build(self, input_shape: Shape) -> None:
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.NUM_SPACES, input_shape[-1]),
            initializer=self.kernel_initializer,
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.convert_to_tensor(self.kernel)[self.target_space_id]
