"""Protocols that list all members of a model that decoding uses.

    DecodedModel      encodes a source and decodes complete sequences
    CachedModel       also decodes new positions with a cache of keys and values: Transformers
    RecurrentModel    also decodes a position from the previous state: LSTMs

`Seq2Seq` and its subclasses have all members of these protocols.
`tests/decoding/decoded_model_test.py` checks this. mypy cannot check it: Keras has no types, so
mypy accepts any Keras model as any protocol.

The members whose names begin with `why_` are reasons in words, such as "prepend_mode=… puts the
targets after the inputs". The value "" means that the reason does not exist.
"""

from collections.abc import Callable, Mapping, Sequence
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
        """The logits, float32 [B, T, V]."""

    @property
    def encoder(self) -> StackOutput | None:
        """The output of the encoder, with the ponder times of the source."""

    @property
    def encoder_mask(self) -> tf.Tensor | None:
        """Bool [B, S], True at the tokens of the source and False at padding."""

    @property
    def decoder(self) -> StackOutput | None:
        """The output of the decoder, with the ponder times of the targets."""


class CompiledFunctions(Protocol):
    """The compiled functions of a model, see `models.compiled_functions`."""

    failed_with_xla: set[str]
    is_slow_search_logged: bool

    def of_decoding(self) -> dict[Any, Callable[..., Any]]:
        """Return the dict that holds the compiled functions of decoding."""


class DecodedModel(Protocol):
    """A model whose targets can be generated and scored."""

    @property
    def trainable_weights(self) -> Sequence[Any]:
        """The weights that training changes, as Keras variables."""

    @property
    def compiled_functions(self) -> CompiledFunctions:
        """The functions that earlier calls have compiled."""

    @property
    def compute_dtype(self) -> str:
        """The dtype to which the layers cast their weights, such as "bfloat16"."""

    @property
    def specs(self) -> Mapping[str, Feature]:
        """The features by name: "targets", and "inputs" unless this is a language model."""

    @property
    def encoder(self) -> Any:
        """The encoder, or None for a language model, whose source is a prompt."""

    @property
    def is_recurrent(self) -> bool:
        """Whether this model is a `RecurrentModel`; otherwise it is a `CachedModel`."""

    @property
    def decoder_is_causal(self) -> bool:
        """Whether the output of `decode` at a position is independent of later positions."""

    @property
    def why_not_cached(self) -> str:
        """Why decoding with a cache would not give exactly the logits of `decode`."""

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
        """Return the prompt tokens that the decoder reads first, int32 [B, P], or None."""

    def encode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> Any:
        """Return the encoded source, which is an argument of `project_memory`."""

    def project_memory(self, encoded: Any, features: Mapping[str, Any]) -> Any:
        """Return a nest of tensors to which the decoder attends. Their first axis is B."""

    def decode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> StackOutput:
        """Return the output of the decoder at all positions, [B, T, D]."""

    def logits(
        self, x: tf.Tensor, columns: tf.Tensor | None = None, padding_mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Return the logits for outputs of the decoder, float32 [B, T, V]."""

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
        """Return logits, targets and weights of one length, for models that require it."""


class CacheOwner(Protocol):
    """The decoder of a `CachedModel`, such as a `Stack`; see `Depth` for the methods."""

    @property
    def cache_order_matters(self) -> bool:
        """Whether a layer depends on the order of the columns of the cache."""

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        """Return an empty cache."""

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        """Return a cache that consists of the given columns of another cache."""


class OutputEmbedding(Protocol):
    """The softmax matrix of a `CachedModel`, such as a `SymbolEmbedding`."""

    def columns(self) -> tf.Tensor:
        """Return the matrix in the order in which `logits` reads it."""


class CachedModel(DecodedModel, Protocol):
    """A model that decodes new positions with a cache of earlier positions."""

    @property
    def num_steps(self) -> int | None:
        """The default number of steps in depth; None means the number in the hparams."""

    @property
    def decoder(self) -> CacheOwner:
        """The decoder, which creates the cache and moves its columns."""

    @property
    def softmax(self) -> OutputEmbedding:
        """The softmax matrix."""

    def extend(
        self, symbols: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any
    ) -> tuple[tf.Tensor, Any]:
        """Return outputs [B, Q, D] at new columns of a cache, and the extended cache."""


class RecurrentModel(DecodedModel, Protocol):
    """A model whose decoder has a state of fixed size. N is the number of all beams."""

    def start(self, memory: Any, num_rows: Any) -> Any:
        """Return the state before the first position."""

    def read(self, symbols: tf.Tensor, state: Any, memory: Any) -> tuple[tf.Tensor, Any]:
        """Return the logits [N, V] after one more token [N] per beam, and the new state."""

    def read_all(self, symbols: tf.Tensor, state: Any) -> Any:
        """Return the state after tokens [N, P]."""
