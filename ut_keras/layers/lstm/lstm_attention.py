"""Stacked LSTMs with attention to another sequence at every position."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.layers.basic import dropout, empty_safe_scan
from ut_keras.layers.basic.layer import check_choice
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.lstm import lstm
from ut_keras.layers.lstm.lstm import LSTMState


class AttentionMemory(NamedTuple):
    """The sequence that the decoder attends to, with its projected keys."""

    keys: tf.Tensor  # [B, S, D]
    values: tf.Tensor  # [B, S, D]
    # bool [B, S], True where attention is allowed. None allows attention to all positions.
    padding_mask: tf.Tensor | None


class AttentionState(NamedTuple):
    """The state that the decoder passes from a position to the next position."""

    cells: tuple  # one `LSTMState` [B, D] per layer
    attention: tf.Tensor  # [B, H · A], the result a_t of the attention
    weights: tf.Tensor  # float32 [B, H, S], the attention weights


@keras.saving.register_keras_serializable(package="ut_keras")
class AttentionLSTM(lstm.StackedCells):
    """Stacked LSTMs with attention to a memory.

    The LSTMs read [x_t; a_{t-1}]: the input, and the result of the attention at the previous
    position. The output h_t of the last LSTM is the query of the attention at position t. The
    values of the memory are v_s:

        k_s = W_k v_s
        e_ts = v · tanh(k_s + W_q h_t)     ("bahdanau", one v per head)
             = k_s · h_t                   ("luong")
        a_t = W_a [h_t; sum_s softmax_s(e_ts) v_s]     for each head

    As in T2T, all heads share keys and query. Therefore, with "luong", all heads have the same
    attention weights. The output is a_t or h_t. With several heads, a dense layer projects a_t to
    width D.

    Args:
        num_layers, hidden_size and others: as `StackedCells`.
        mechanism: "bahdanau" or "luong".
        attention_layer_size: int A.
        num_heads: int H.
        output_attention: bool. Whether the output is a_t instead of h_t.

    Call arguments:
        x: float tensor [B, T, C].
        memory: `AttentionMemory` from `project_memory`.
        initial_states: tuple of `LSTMState`, one per layer.
        padding_mask: bool tensor [B, T]. Optional. Where it is False, the layer sets a_t or h_t to
            0 before the projection.

    Returns:
        (output [B, T, `output_size`], attention weights, float32 [B, H, T, S]).

    References: Bahdanau et al. 2015; Luong et al. 2015; T2T `lstm_attention_decoder`, TensorFlow
        1's `AttentionWrapper`.
    """

    def __init__(
        self,
        num_layers: int,
        hidden_size: int,
        mechanism: str = "bahdanau",
        attention_layer_size: int = 128,
        num_heads: int = 1,
        output_attention: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, hidden_size, **kwargs)
        check_choice("mechanism", mechanism, ("bahdanau", "luong"))
        self.mechanism = mechanism
        self.attention_layer_size = attention_layer_size
        self.num_heads = num_heads
        self.output_attention = output_attention

    @property
    def attention_size(self) -> int:
        """The width of a_t over all heads, H · A."""
        return self.num_heads * self.attention_layer_size

    @property
    def output_size(self) -> int:
        """The width of the output: A if the output is a_t of a single head, otherwise D."""
        if self.output_attention and self.num_heads == 1:
            return self.attention_layer_size
        return self.hidden_size

    def build(self, x_shape: Shape) -> None:
        size = self.hidden_size
        self.memory_layer = self._dense(size, "memory_layer", size, use_bias=False)
        self.query_layer: Any = None
        self.attention_v: tuple = ()
        if self.mechanism == "bahdanau":
            self.query_layer = self._dense(size, "query_layer", size, use_bias=False)
            self.attention_v = tuple(
                self.add_weight(
                    name=_numbered("attention_v", head),
                    shape=(size,),
                    initializer=self.kernel_initializer.clone(),
                )
                for head in range(self.num_heads)
            )
        self.cells, self.dropouts = self._make_cells(x_shape[-1] + self.attention_size)
        self.input_dropout = dropout.Dropout(self.dropout_rate, dtype=self.dtype_policy)
        self.attention_layers = tuple(
            self._dense(
                self.attention_layer_size,
                _numbered("attention_layer", head),
                2 * size,
                use_bias=False,
            )
            for head in range(self.num_heads)
        )
        self.output_layer: Any = None
        if self.output_attention and self.num_heads > 1:
            self.output_layer = self._dense(size, "dense", self.attention_size)

    def call(
        self,
        x: tf.Tensor,
        memory: AttentionMemory,
        initial_states: Sequence[LSTMState],
        padding_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        x = tf.transpose(tf.cast(x, self.compute_dtype), [1, 0, 2])
        projected = self.cells[0].project(self.input_dropout(x, training=training))
        masks = self._dropout_masks(tf.shape(x)[0], tf.shape(x)[1], training)

        def take_step(state, now):
            return self.step(now[0], state, memory, now[1])

        start = self.start(memory, initial_states)
        after = empty_safe_scan.scan(take_step, (projected, masks), start)
        raw_output = tf.transpose(self._raw_output(after), [1, 0, 2])
        if padding_mask is not None:
            raw_output = tf.where(padding_mask[..., tf.newaxis], raw_output, 0)
        return self._to_output(raw_output), tf.transpose(after.weights, [1, 2, 0, 3])

    # Methods for one position, which decoding uses.

    def project_memory(
        self, values: tf.Tensor, padding_mask: tf.Tensor | None = None
    ) -> AttentionMemory:
        """Project the keys of the memory.

        Args:
            values: float tensor [B, S, D].
            padding_mask: bool [B, S], True where attention is allowed. Optional.
        """
        return AttentionMemory(self.memory_layer(values), values, padding_mask)

    def start(self, memory: AttentionMemory, initial_states: Sequence[LSTMState]) -> AttentionState:
        """Return the `AttentionState` before the first position."""
        shape = tf.shape(memory.keys)
        return AttentionState(
            tuple(initial_states),
            tf.zeros([shape[0], self.attention_size], memory.keys.dtype),
            tf.zeros([shape[0], self.num_heads, shape[1]]),
        )

    def step(
        self,
        projected: tf.Tensor,
        state: AttentionState,
        memory: AttentionMemory,
        masks: Sequence[tf.Tensor] | None = None,
    ) -> AttentionState:
        """Compute one position.

        Args:
            projected: float tensor [B, 4 D], x multiplied by the kernel of the first cell.
            state: `AttentionState` after the previous position.
            memory: `AttentionMemory`.
            masks: dropout masks. The first mask is for a_{t-1}. The other masks are for the inputs
                of the second and all later layers. If None or empty, there is no dropout.
        """
        features = state.attention
        cells: list[LSTMState] = []
        for number, cell in enumerate(self.cells):
            x = features * masks[number] if masks else features
            if number == 0:
                cells.append(cell.step(projected, state.cells[0], rest=x))
            else:
                cells.append(cell.step(cell.project(x), state.cells[number]))
            features = cells[-1].output
        query = features
        weights = tf.nn.softmax(self._scores(query, memory))  # [B, H, S]
        contexts = tf.matmul(tf.cast(weights, query.dtype), memory.values)  # [B, H, D]
        attention = tf.concat(
            [
                layer(tf.concat([query, contexts[:, head]], axis=-1))
                for head, layer in enumerate(self.attention_layers)
            ],
            axis=-1,
        )
        return AttentionState(tuple(cells), attention, weights)

    def output(self, state: AttentionState) -> tf.Tensor:
        """Return the output of a position, [B, `output_size`]."""
        return self._to_output(self._raw_output(state))

    def _raw_output(self, state):
        return state.attention if self.output_attention else state.cells[-1].output

    def _to_output(self, raw_output):
        return raw_output if self.output_layer is None else self.output_layer(raw_output)

    def _scores(self, query, memory):
        """Return e_ts of one position t, float32 [B, H, S]."""
        if self.mechanism == "bahdanau":
            sums = tf.tanh(memory.keys + self.query_layer(query)[:, tf.newaxis])
            v = tf.stack([tf.convert_to_tensor(v) for v in self.attention_v])
            scores = tf.einsum("bsd,hd->bhs", sums, tf.cast(v, sums.dtype))
        else:
            scores = tf.matmul(query[:, tf.newaxis], memory.keys, transpose_b=True)
            scores = tf.tile(scores, [1, self.num_heads, 1])  # XLA cannot train with tf.repeat
        scores = tf.cast(scores, tf.float32)
        if memory.padding_mask is None:
            return scores
        return tf.where(memory.padding_mask[:, tf.newaxis], scores, scores.dtype.min)

    def _dropout_masks(self, length, batch_size, training):
        """Return the `masks` of `step` for all positions, each [T, B, width].

        The method samples the masks before the loop over positions. Without dropout, it returns [].
        """
        if not training or self.dropout_rate == 0:
            return []
        widths = [self.attention_size] + [self.hidden_size] * (self.num_layers - 1)
        return [
            drop(tf.ones([length, batch_size, width], self.compute_dtype), training=True)
            for drop, width in zip(self.dropouts, widths, strict=True)
        ]

    def compute_output_shape(self, x_shape: Shape, *_: Any) -> tuple[Shape, Shape]:
        weights = (x_shape[0], self.num_heads, x_shape[1], None)
        return (*x_shape[:-1], self.output_size), weights


def _numbered(name, head):
    """Return T2T's name for a head's weight, such as `name` or `name_1`."""
    return f"{name}_{head}" if head else name
