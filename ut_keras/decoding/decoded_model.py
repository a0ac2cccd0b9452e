"""What decoding needs of a model, as protocols. Decoding reads no other member of a model.

    DecodedModel      encodes a source and decodes complete sequences
    CachedModel       also decodes new positions with a cache of keys and values: Transformers
    RecurrentModel    also decodes a position from the state before it: LSTMs

`Seq2Seq` and its subclasses fulfil them. `tests/decoding/decoded_model_test.py` checks this. mypy
cannot: Keras has no types, so mypy accepts any Keras model as any protocol.

The members whose names begin with `why_` are reasons in words, such as "prepend_mode=… puts the
targets after the inputs". "" means that there is no such reason.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.layers.depth.depth import StackOutput


class Feature(Protocol):
    """A feature of a model, such as a `FeatureSpec`."""

    @property
    def vocab_size(self) -> int:
        """The number of ids."""


class ForwardOutput(Protocol):
    """The result of a forward pass, such as a `ModelOutput`."""

    @property
    def logits(self) -> tf.Tensor:
        """Float32 [B, T, V]."""

    @property
    def encoder(self) -> StackOutput | None:
        """The output of the encoder, with the ponder times of the source."""

    @property
    def encoder_mask(self) -> tf.Tensor | None:
        """Bool [B, S], True at the real tokens of the source."""

    @property
    def decoder(self) -> StackOutput | None:
        """The output of the decoder, with the ponder times of the targets."""


class DecodedModel(Protocol):
    """A model whose targets can be generated and scored."""

    @property
    def specs(self) -> Mapping[str, Feature]:
        """The features by name: "targets" and, except for language models, "inputs"."""

    @property
    def encoder(self) -> Any:
        """The encoder; None for a language model, whose source is a prompt."""

    @property
    def is_recurrent(self) -> bool:
        """Whether this is a `RecurrentModel`; otherwise it is a `CachedModel`."""

    @property
    def decoder_is_causal(self) -> bool:
        """Whether an output of `decode` is independent of later positions."""

    @property
    def why_not_cached(self) -> str:
        """Why a cache cannot give exactly the logits of `decode`."""

    @property
    def why_source_padding_matters(self) -> str:
        """Why padding after a source changes the outputs."""

    @property
    def why_target_padding_matters(self) -> str:
        """Why padding after given targets changes their scores."""

    @property
    def why_encoder_padding_matters(self) -> str:
        """Why padding changes the outputs of a model without a decoder."""

    def prompt(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor | None:
        """Return the tokens that the decoder reads before it generates, int32 [B, P], or None."""

    def encode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> Any:
        """Return the encoded source, an argument of `project_memory`."""

    def project_memory(self, encoded: Any, features: Mapping[str, Any]) -> Any:
        """Return what the decoder attends to: a nest of tensors whose first axis is B."""

    def decode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> StackOutput:
        """Return the output of the decoder at all positions, [B, T, D]."""

    def logits(
        self, x: tf.Tensor, columns: tf.Tensor | None = None, padding_mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Return the logits of outputs of the decoder, float32 [B, T, V]."""

    def forward(
        self,
        features: Mapping[str, Any],
        training: bool | None = None,
        record_attention: bool = False,
        num_steps: int | None = None,
        exit_threshold: float | None = None,
    ) -> ForwardOutput:
        """Return the result of a forward pass over given sources and targets."""

    def match_lengths(self, logits: Any, targets: Any, *weights: Any) -> tuple:
        """Return logits, targets and weights with one length, for models that need it."""


class CacheOwner(Protocol):
    """The decoder of a `CachedModel`, such as a `Stack`; see `Depth` for the methods."""

    @property
    def cache_order_matters(self) -> bool:
        """Whether a layer depends on the order of the columns of the cache."""

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        """Return an empty cache."""

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        """Return a cache with given columns of a cache."""


class OutputEmbedding(Protocol):
    """The softmax matrix of a `CachedModel`, such as a `SymbolEmbedding`."""

    def columns(self) -> tf.Tensor:
        """Return the matrix in the order in which `logits` reads it at every position."""


class CachedModel(DecodedModel, Protocol):
    """A model that decodes new positions with a cache of the earlier ones."""

    @property
    def num_steps(self) -> int | None:
        """The default number of steps in depth; None: that of the hparams."""

    @property
    def decoder(self) -> CacheOwner:
        """The decoder, which makes and moves the cache."""

    @property
    def softmax(self) -> OutputEmbedding:
        """The softmax matrix."""

    def extend(
        self, symbols: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any
    ) -> tuple[tf.Tensor, Any]:
        """Return the outputs [B, Q, D] at new columns of a cache, and the cache with them."""


class RecurrentModel(DecodedModel, Protocol):
    """A model whose decoder has a state of fixed size. N rows are all beams of all examples."""

    def start(self, memory: Any, num_rows: Any) -> Any:
        """Return the state before the first position."""

    def read(self, symbols: tf.Tensor, state: Any, memory: Any) -> tuple[tf.Tensor, Any]:
        """Return the logits [N, V] after one more token [N], and the new state."""

    def read_all(self, symbols: tf.Tensor, state: Any) -> Any:
        """Return the state after tokens [N, P]."""
