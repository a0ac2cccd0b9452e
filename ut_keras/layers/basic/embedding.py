"""What ids may be, and from them to vectors and back: symbols, sentences as bags of words."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic.dense import WithKernels
from ut_keras.layers.basic.layer import Layer, PositionWise
from ut_keras.layers.basic.signature import Shape
from ut_keras.ops import litert


@keras.saving.register_keras_serializable(package="ut_keras")
class SymbolEmbedding(Layer):
    """A table with one row per symbol; embeds ids and, as a softmax matrix, scores them.

    Rows are multiplied by sqrt(D) when embedded, not when they score; id 0, padding, becomes the
    zero vector, and Keras' mask says where it is, as that of `Embedding(mask_zero=True)` does.

    Args:
        vocab_size: int V.
        hidden_size: int D.
        multiply: bool. Whether to multiply at all.
    Call arguments:
        ids: int tensor of any shape.
    Returns:
        float tensor [..., D].
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
            autocast=False,  # a few rows are cast, not the table
        )

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        ids = as_ids(ids, "ids")
        scale = tf.where(ids != 0, self.hidden_size**0.5 if self.multiply else 1.0, 0.0)
        rows = litert.lookup(tf.convert_to_tensor(self.embedding), ids)
        rows = tf.cast(rows, self.compute_dtype)
        return rows * tf.cast(scale, rows.dtype)[..., tf.newaxis]

    def compute_mask(self, ids: tf.Tensor, previous_mask: tf.Tensor | None) -> tf.Tensor:
        return ids != 0

    def logits(self, x: tf.Tensor, columns: tf.Tensor | None = None) -> tf.Tensor:
        """Scores every symbol.

        Args:
            x: float tensor [B, T, D].
            columns: what `columns` returned, which saves time where few `x` are scored again and
                again. Optional.
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
        """The table with a column per symbol, [D, V]."""
        table = tf.cast(tf.convert_to_tensor(self.embedding), self.compute_dtype)
        return tf.transpose(table)

    def compute_output_shape(self, ids_shape: Shape) -> Shape:
        return (*ids_shape, self.hidden_size)


@keras.saving.register_keras_serializable(package="ut_keras")
class SentenceEmbedding(Layer):
    """One vector per sentence: the sum of its words' embeddings, each times a mask by position.

    The learned mask keeps the order of the words; stories and questions have one each. The last
    sentence that has words is the question. A sentence of padding only becomes the zero vector,
    and is masked.

        m_i = sum_j f_j * w_ij      (the bAbI encoding of Dehghani et al. 2019, section 3.1)

    The authors' masks start at one, so that a new model cannot tell "a is east of b" from "b is
    east of a", and nothing but noise leads away from there: on bAbI's tasks 17 and 19 it stands
    still for thousands of updates. Masks that start with a spread around one tell the order at
    once.

    Args:
        vocab_size: int V.
        hidden_size: int D.
        max_words: int. Words per sentence, padding included.
        mask_stddev: float >= 0. Spread of the masks around one at the start; the authors' is 0.
        multiply: bool. As of `SymbolEmbedding`.
    Call arguments:
        ids: int tensor [B, sentences, max_words].
    Returns:
        float tensor [B, sentences, D].
    References: the authors' bAbI-T2T code; see problems/babi_qa.py.
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
        # The ids are cut, not the vectors: those are much larger, and so are their gradients.
        story = self._encode_sentences(ids * (1 - is_question), self.story_mask)
        question = self._encode_sentences(
            tf.reduce_sum(ids * is_question, axis=1), self.question_mask
        )
        return story + tf.cast(is_question, story.dtype) * question[:, tf.newaxis]

    def compute_mask(self, ids: tf.Tensor, previous_mask: tf.Tensor | None) -> tf.Tensor:
        return keras.ops.any(ids != 0, axis=2)  # of symbolic ids, too

    def _encode_sentences(self, ids, mask):
        """[..., words] -> [..., D]."""
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
    """Adds to every source position, padding included, a vector that names the kind of target.

    Args:
        target_space_id: int in [0, 32). T2T's `SpaceID` of the targets.
        kernel_initializer: Keras initializer, of the table with a row for every kind.
    Call arguments:
        x: float tensor [B, S, D].
    Returns:
        Tensor like `x`.
    Raises:
        ValueError: if the id is out of range.
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


# Ids as they come from a caller: ints of any size, and nothing that would have to be rounded.


def check_features(features: Any, names: Sequence[str] = ()) -> None:
    """Raises `ValueError` unless `features` are a dict that has all these names."""
    if not isinstance(features, Mapping):
        shape = getattr(features, "shape", None)
        received = type(features).__name__ if shape is None else f"a tensor of shape {shape}"
        raise ValueError(
            f"features must be a dict from name to ids{': ' if names else ''}{', '.join(names)}. "
            f"Received: {received}. In fit, pass the dict as x and the targets as y."
        )
    if not set(names) <= set(features):
        raise ValueError(f"features must have the keys {names}. Received: {sorted(features)}.")


def check_batch_sizes(features: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise `ValueError` where the shapes of these features say that their rows differ."""
    shapes = {}
    for name in names:
        shape = getattr(features.get(name), "shape", None)
        if shape is not None and (shape.rank if isinstance(shape, tf.TensorShape) else len(shape)):
            shapes[name] = shape
    first = "targets" if "targets" in shapes else next(iter(shapes), "")
    for name, shape in shapes.items():
        if shape[0] is not None and shapes[first][0] not in (None, shape[0]):
            raise ValueError(
                f"{name} must have the batch size of {first}, {shapes[first][0]}. "
                f"Received: {shape[0]}."
            )


def as_ids(values: Any, name: str, size: int | None = None) -> tf.Tensor:
    """Returns ids as int32.

    Args:
        values: int tensor, array or nested lists of any shape.
        name: str, for the error.
        size: int. How many ids there are; looked at outside of graphs. Optional.
    Raises:
        ValueError: if they are no ints, or out of range. (Keras' embeddings would cut floats off;
            of large ints the higher bits would be, and a GPU makes zeros of ids out of range.)
    """
    try:
        ids = tf.convert_to_tensor(values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be sequences of the same length, padded with 0 on the right. "
            f"Received: {type(values).__name__}: {error}"
        ) from error
    # An empty list has no type of its own.
    if not ids.dtype.is_integer and ids.shape.num_elements() != 0:
        raise ValueError(
            f"{name} must have an int dtype. Received: {ids.dtype.name}. "
            "For keras.Input, pass dtype='int32'."
        )
    if size is not None and tf.executing_eagerly() and tf.size(ids):
        for worst in (tf.reduce_min(ids), tf.reduce_max(ids)):
            if not 0 <= int(worst) < size:
                raise ValueError(f"{name} must be ids in [0, {size}). Received: {int(worst)}.")
    return tf.cast(ids, tf.int32)
