"""The LSTM baselines: an encoder that reads backwards, and a decoder.

The decoder starts from the last states of the encoder.

    ids ─ embed ─ reverse ─ LSTMs ──── last states ──┐
    ids ─ embed ─ shift right ─ LSTMs (+ attention) ─ logits

If the target is a class label, the decoder has one position, and its output depends only on the
source. A model without a source is a language model, and has no attention. A bidirectional encoder
also reads the source forwards.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.data.features import FeatureSpec
from ut_keras.hparam_schema import BasicHParams, HParamError
from ut_keras.hparam_schema.lstm_hparams import LSTMHParams
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.lstm import lstm, lstm_attention
from ut_keras.models import embedding_tables, feature_checks, seq2seq
from ut_keras.models.output import Encoded


class LSTMMemory(NamedTuple):
    """The initial states of the decoder, and the memory that the decoder attends to."""

    states: tuple  # `LSTMState` of each layer
    attention: lstm_attention.AttentionMemory | None


@keras.saving.register_keras_serializable(package="ut_keras")
class LSTMSeq2seq(seq2seq.Seq2Seq):
    """Encoder and decoder of T2T's `lstm_seq2seq`.

    Arguments, call arguments and returns are those of `Seq2Seq`. The hparams are `LSTMHParams`.
    Packed examples raise an error, because the state after one example would be the initial state
    of the next example.

    References: Sutskever et al. 2014; T2T `models/lstm.py`.
    """

    hparams_class = LSTMHParams
    example_set = "lstm_seq2seq"
    is_recurrent = True
    # The number of directions in which the encoder reads. The decoder has the size
    # `directions` · hidden_size.
    directions = 1

    @classmethod
    def check_arguments(cls, hparams: BasicHParams, specs: Mapping[str, FeatureSpec]) -> None:
        super().check_arguments(hparams, specs)
        hp: Any = hparams
        size, hidden_size = cls._softmax_size(hp), hp.hidden_size
        if size != hidden_size and embedding_tables.shares_softmax(hparams, specs):
            raise HParamError(
                "The decoder's output size must be hidden_size if the embedding and the softmax "
                "share a table. "
                f"Received: {size} for "
                f"attention_layer_size={hp.attention_layer_size}, hidden_size={hidden_size}, "
                f"shared_embedding_and_softmax_weights=True of {cls.__name__}."
            )

    # Parts.

    def _make_stacks(self) -> None:
        self.encoder = None
        if "inputs" in self.specs:
            self.encoder = self._encoder(**self._lstm_arguments(), name="encoder")
        self.decoder = self._decoder(**self._lstm_arguments(self.directions), name="decoder")

    def _encoder(self, **arguments):
        if self.directions == 2:
            return lstm.BidirectionalLSTM(**arguments)
        return lstm.LSTMStack(**arguments, backward=True)

    def _decoder(self, **arguments):
        return lstm.LSTMStack(**arguments)

    def _lstm_arguments(self, directions=1):
        hp = self.hparams
        return {
            "num_layers": hp.num_hidden_layers,
            "hidden_size": directions * hp.hidden_size,
            "dropout_rate": hp.dropout,
            "kernel_initializer": from_hparams.kernel_initializer(hp),
            "dtype": self.dtype_policy,
        }

    @classmethod
    def _softmax_size(cls, hp: Any) -> int:
        return cls.directions * hp.hidden_size

    def _build_all(self):
        if self.class_labels:
            self.class_label_head.build((None, None, self._softmax_size(self.hparams)))
        super()._build_all()

    # The forward pass.

    def encode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> Encoded:
        ids = self._ids(features, "inputs")
        padding_mask = ids != 0 if ids.shape.rank == 2 else tf.reduce_any(ids != 0, axis=-1)
        x = self._embed(self.source_embedding, ids)
        encoded = self.encoder(x, padding_mask=padding_mask, training=inputs.training)
        return Encoded(StackOutput(encoded.output), padding_mask, encoded.states)

    def project_memory(self, encoded: Any, features: Mapping[str, Any]) -> LSTMMemory:
        return LSTMMemory(encoded.states, None)

    def decode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> StackOutput:
        x = self._embed_shifted(self._ids(features, "targets"))
        states = None if inputs.memory is None else inputs.memory.states
        decoded = self.decoder(x, inputs.padding_mask, states, training=inputs.training)
        return StackOutput(decoded.output)

    def target_padding_mask(self, features: Mapping[str, Any]) -> tf.Tensor | None:
        """Return a mask of the targets and of one position after them, as in T2T."""
        ids = self._ids(features, "targets")
        return tf.sequence_mask(tf.math.count_nonzero(ids, axis=1) + 1, tf.shape(ids)[1])

    # Decoding. N is the number of examples times the number of beams.

    def start(self, memory: Any, num_rows: Any) -> Any:
        """Return the state before the first position; `memory` has N rows."""
        if memory is None:
            return tuple(cell.zero_state(num_rows) for cell in self.decoder.cells)
        return memory.states

    def read(self, symbols: tf.Tensor, state: Any, memory: Any) -> tuple[tf.Tensor, Any]:
        """Compute one position.

        Args:
            symbols: int32 [N], the token before the position. At the first position it is 0.
            state: from `start`, `read` or `read_all`.
            memory: from `project_memory`, with N rows.

        Returns:
            (logits [N, V] of the token at the position, state).
        """
        embedded = self._embed(self.target_embedding, symbols[:, tf.newaxis])
        decoded = self.decoder(embedded, initial_states=state)
        return self.logits(decoded.output)[:, 0], decoded.states

    def read_all(self, symbols: tf.Tensor, state: Any) -> Any:
        """Return the state of a language model after tokens [N, P]."""
        embedded = self._embed(self.target_embedding, symbols)
        return self.decoder(embedded, initial_states=state).states

    def _check_features(self, features):
        super()._check_features(features)
        feature_checks.check_one_example_per_row(features, "An LSTM")


@keras.saving.register_keras_serializable(package="ut_keras")
class LSTMSeq2seqBidirectionalEncoder(LSTMSeq2seq):
    """T2T's `lstm_seq2seq_bidirectional_encoder`."""

    directions = 2


@keras.saving.register_keras_serializable(package="ut_keras")
class LSTMSeq2seqAttention(LSTMSeq2seq):
    """T2T's `lstm_seq2seq_attention`. The decoder attends to the complete source.

    As in T2T the decoder also attends to padding, so an output depends slightly on the length of
    the longest source in the batch. The hparam `attention_mask_padding` prevents this.

    References: Bahdanau et al. 2015; Luong et al. 2015; T2T `models/lstm.py`.
    """

    needs_inputs = True

    @property
    def why_source_padding_matters(self) -> str:
        if self.hparams.attention_mask_padding:
            return ""
        return f"{self.name} attends to padding"

    def _decoder(self, **arguments):
        hp = self.hparams
        return lstm_attention.AttentionLSTM(
            **arguments,
            mechanism=hp.attention_mechanism,
            attention_layer_size=hp.attention_layer_size,
            num_heads=hp.num_heads,
            output_attention=hp.output_attention,
        )

    @classmethod
    def _softmax_size(cls, hp: Any) -> int:
        if hp.output_attention and hp.num_heads == 1:
            return hp.attention_layer_size
        return super()._softmax_size(hp)

    def project_memory(self, encoded: Any, features: Mapping[str, Any]) -> LSTMMemory:
        may_attend = encoded.padding_mask if self.hparams.attention_mask_padding else None
        attention = self.decoder.project_memory(encoded.stack.output, may_attend)
        return LSTMMemory(encoded.states, attention)

    def decode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> StackOutput:
        x = self._embed_shifted(self._ids(features, "targets"))
        (states, attention), mask = inputs.memory, inputs.padding_mask
        output, weights = self.decoder(x, attention, states, mask, training=inputs.training)
        recorded = weights[tf.newaxis] if inputs.record_attention else None  # [1, B, H, T, S]
        return StackOutput(output, memory_attention_weights=recorded)

    def start(self, memory: Any, num_rows: Any) -> Any:
        return self.decoder.start(memory.attention, memory.states)

    def read(self, symbols: tf.Tensor, state: Any, memory: Any) -> tuple[tf.Tensor, Any]:
        projected = self.decoder.cells[0].project(self._embed(self.target_embedding, symbols))
        state = self.decoder.step(projected, state, memory.attention)
        return self.logits(self.decoder.output(state)[:, tf.newaxis])[:, 0], state


@keras.saving.register_keras_serializable(package="ut_keras")
class LSTMSeq2seqAttentionBidirectionalEncoder(LSTMSeq2seqAttention):
    """T2T's `lstm_seq2seq_attention_bidirectional_encoder`."""

    directions = 2
