"""The Transformer: the baseline, and the frame that the Universal Transformer fills.

    ids ─ embed ─ encode ─┐
    ids ─ embed ─ shift right ─ decode ─ logits

A model without source is a language model; a model whose target is a class label has one decoder
position, which sees only the source.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import keras
import tensorflow as tf

from ut_keras import hparam
from ut_keras.data.features import FeatureSpec
from ut_keras.decoding import next_logits
from ut_keras.hparam import BasicHParams
from ut_keras.layers import attention_mask, embedding, from_hparams, symbol_ids, target_shift
from ut_keras.layers import cache as cache_lib
from ut_keras.layers import dropout as dropout_lib
from ut_keras.layers.stack_output import StackOutput
from ut_keras.models import (
    assemble,
    frozen_layers,
    keras_export,
    keras_hooks,
    model_loss,
    position_signals,
    symbol_tables,
    symbol_writer,
)


class Encoded(NamedTuple):
    """The source, encoded."""

    stack: StackOutput
    padding_mask: tf.Tensor  # bool [B, S], True at real tokens


class ModelOutput(NamedTuple):
    """All that a forward pass computes."""

    logits: tf.Tensor  # [B, T, V] float32; [B, C] for classes
    encoder: StackOutput | None
    decoder: StackOutput | None
    encoder_mask: tf.Tensor | None  # bool [B, S], True at real tokens
    decoder_mask: tf.Tensor | None = None  # bool [B, T], the same of the targets, where it counts


@keras.saving.register_keras_serializable(package="ut_keras")
class Transformer(
    keras_hooks.KerasHooks,
    keras_export.KerasExport,
    symbol_writer.SymbolWriter,
    model_loss.ModelLoss,
    symbol_tables.SymbolTables,
    keras.Model,
):
    """Encoder and decoder of T2T's `transformer`.

    Make one by `from_hparams` or `ut_keras.models.get`.

    Args:
        hparams: `TransformerHParams`.
        specs: dict from feature name to `FeatureSpec`: "targets" and, but for language models,
            "inputs".
        target_space_id: int. T2T's id of the kind of target.
    Call arguments:
        features: dict of int32 ids, 0 = padding: "inputs" [B, S] (sentences: [B, sentences,
            words]) and "targets" [B, T] (classes: [B] or [B, 1]). Packed examples have
            "*_segmentation" and "*_position" besides, [B, length].
        training: bool.
    Returns:
        logits, float32: [B, T, V], or [B, C] for classes.
    References: Vaswani et al. 2017; T2T `models/transformer.py`.
    """

    hparams: Any  # of the class that goes with the model's
    encoder: Any  # a layer, or None
    decoder: Any
    source_position: keras.layers.Layer | None = None
    target_position: keras.layers.Layer | None = None
    has_decoder = True

    def __init__(
        self,
        hparams: BasicHParams,
        specs: Mapping[str, FeatureSpec],
        target_space_id: int = 0,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("dtype", from_hparams.dtype_policy(hparams))
        super().__init__(**kwargs)
        self.hparams = hparams
        self.specs = specs
        self.target_space_id = target_space_id
        self.class_labels = specs["targets"].modality == "class_label"
        self._make_embeddings()
        self._make_stacks()
        self._build_all()

    @classmethod
    def from_hparams(
        cls,
        hparams: BasicHParams,
        specs: Mapping[str, FeatureSpec],
        target_space_id: int = 0,
        **kwargs: Any,
    ) -> Self:
        """Makes a model.

        Args:
            hparams: `TransformerHParams`. Where they leave `activation_dtype` at float32, Keras'
                global dtype policy says it.
            specs: dict from feature name to `FeatureSpec`.
            target_space_id: int.
        Raises:
            HParamError: if a field holds a value that is not supported, or not by this model.
            ValueError: if the features do not fit the model.
        """
        cls.check_arguments(hparams, specs)
        hparams = assemble.with_global_policy(hparams)
        return cls(hparams, specs, target_space_id, **kwargs)

    @classmethod
    def check_arguments(cls, hparams: BasicHParams, specs: Mapping[str, FeatureSpec]) -> None:
        """Raises what `from_hparams` says."""
        hparams.check_supported(training=False)
        if "targets" not in specs:
            raise ValueError(f"specs must hold 'targets'. Received: {sorted(specs)}.")
        pooling = getattr(hparams, "class_label_pooling", "mean")
        if cls.has_decoder and specs["targets"].modality == "class_label" and pooling != "mean":
            raise hparam.HParamError(
                "class_label_pooling must be mean where a decoder answers, which has one position. "
                f"Received: class_label_pooling={pooling} of a {cls.__name__}."
            )

    # Parts.

    def _make_stacks(self):
        hp, policy = self.hparams, self.dtype_policy
        rate = hp.embedding_dropout
        rate = hp.layer_prepostprocess_dropout if rate is None else rate
        self.encoder = self.target_space = None
        if "inputs" in self.specs:
            self.encoder = self._stack("encoder")
            self.source_position = self._position("encoder", "source_position")
            self.source_dropout = dropout_lib.Dropout(rate, name="source_dropout", dtype=policy)
            if hp.use_target_space_embedding:
                self.target_space = embedding.TargetSpaceEmbedding(
                    self.target_space_id,
                    from_hparams.kernel_initializer(hp),
                    name="target_space_embedding",
                    dtype=policy,
                )
        self.decoder = self._decoder()
        if self.decoder is not None:
            self.target_position = self._position("decoder", "target_position")
            self.target_dropout = dropout_lib.Dropout(rate, name="target_dropout", dtype=policy)

    def _stack(self, side):
        """An encoder or decoder; the Universal Transformer overrides it."""
        return assemble.layered_stack(self.hparams, side)

    def _position(self, side, name):
        """What is added before a stack: a layer of that name, or None."""
        return assemble.position_signal(self.hparams, side, name)

    def _decoder(self):
        return self._stack("decoder" if "inputs" in self.specs else "language_model")

    def _build_all(self):
        """Builds every layer now: the widths are known, the lengths do not matter."""
        ids, state = (None, None), (None, None, self.hparams.hidden_size)
        for layer in self._flatten_layers(include_self=False, recursive=False):
            if not layer.built:
                layer.build(ids if isinstance(layer, embedding.SymbolEmbedding) else state)
        self.built = True

    # The forward pass.

    def call(self, features: Mapping[str, Any], training: bool | None = None) -> tf.Tensor:
        output = self.forward(features, training)
        values = [term.value() for term in self._ponder_terms(output)]
        for value in values:
            self.add_loss(value)
        return keras_hooks.with_pondering(output, values)

    def forward(
        self,
        features: Mapping[str, Any],
        training: bool | None = None,
        record_attention: bool = False,
    ) -> ModelOutput:
        """The whole pass.

        Args:
            features, training: as in a call.
            record_attention: bool. Whether to keep the attention weights.
        Returns:
            `ModelOutput`.
        Raises:
            ValueError: if a feature is missing.
        """
        self._check_features(features)
        encoded = None
        if training:
            layer = self.target_position if self.encoder is None else self.source_position
            features = position_signals.with_places(features, layer, self.specs)
        if self.encoder is not None:
            encoded = self.encode(features, training, record_attention)
        memory = None if encoded is None else self.project_memory(encoded, features)
        decoder_mask = self.target_padding_mask(features)
        decoded = self.decode(features, memory, training, record_attention, decoder_mask)
        return ModelOutput(
            self.logits(decoded.output),
            None if encoded is None else encoded.stack,
            decoded,
            None if encoded is None else encoded.padding_mask,
            decoder_mask,
        )

    def encode(
        self,
        features: Mapping[str, Any],
        training: bool | None = None,
        record_attention: bool = False,
    ) -> Encoded:
        """Encodes the source.

        Args:
            features: dict with "inputs", as in a call.
        Returns:
            `Encoded`.
        """
        ids = self._ids(features, "inputs")
        padding_mask = ids != 0 if ids.shape.rank == 2 else tf.reduce_any(ids != 0, axis=-1)
        segments = features.get("inputs_segmentation")
        if segments is None:
            may_attend = attention_mask.padding_attention_mask(padding_mask)
        else:
            padding_mask = segments != 0
            may_attend = attention_mask.segment_attention_mask(segments, segments)
        if self.hparams.unidirectional_encoder:
            causal = attention_mask.causal_attention_mask(tf.shape(ids)[1])
            # Padding comes last, where only padding sees it. T2T forgets segments here.
            may_attend = causal if segments is None else may_attend & causal
        x = self._embed(self.source_embedding, ids)
        if self.target_space is not None:
            x = self.target_space(x)
        layer = self.source_position
        x = position_signals.add(layer, x, features, "inputs", training, padding_mask)
        x = self.source_dropout(x, training=training)
        result = self.encoder.forward(
            x,
            attention_mask=may_attend,
            padding_mask=padding_mask,
            record_attention=record_attention,
            training=training,
        )
        return Encoded(result, padding_mask)

    def project_memory(self, encoded: Encoded, features: Mapping[str, Any]) -> tuple:
        """What the decoder attends to, computed once for all its steps and all its tokens.

        Args:
            encoded: `Encoded`.
            features: dict; of packed examples the segments are read.
        Returns:
            tuple of `Memory`.
        """
        may_attend = attention_mask.padding_attention_mask(encoded.padding_mask)
        if "inputs_segmentation" in features:
            may_attend = attention_mask.segment_attention_mask(
                features["targets_segmentation"], features["inputs_segmentation"]
            )
        return self.decoder.project_memory(encoded.stack.output, may_attend)

    def target_padding_mask(self, features: Mapping[str, Any]) -> tf.Tensor | None:
        """Which targets are real: bool [B, T]; None where the decoder need not know, as in T2T."""
        segments = features.get("targets_segmentation")
        return None if segments is None else segments != 0

    def decode(
        self,
        features: Mapping[str, Any],
        memory: Any,
        training: bool | None = None,
        record_attention: bool = False,
        padding_mask: tf.Tensor | None = None,
    ) -> StackOutput:
        """Decodes the targets, each position seeing those before it.

        Args:
            features: dict with "targets", as in a call.
            memory: tuple of `Memory` from `project_memory`; None for a language model.
            padding_mask: from `target_padding_mask`. None while targets are still written.
        Returns:
            `StackOutput`; output [B, T, D].
        """
        ids = self._ids(features, "targets")
        may_attend = attention_mask.causal_attention_mask(tf.shape(ids)[1])
        segments = features.get("targets_segmentation")
        if segments is not None:
            may_attend &= attention_mask.segment_attention_mask(segments, segments)
        x = target_shift.shift_right(self._embed_targets(ids))
        x = position_signals.add(self.target_position, x, features, "targets", training)
        x = self.target_dropout(x, training=training)
        return self.decoder.forward(
            x,
            attention_mask=may_attend,
            padding_mask=padding_mask,
            memory=memory,
            record_attention=record_attention,
            training=training,
        )

    def _check_features(self, features):
        symbol_ids.check_features(features, self.input_features)

    # Decoding.

    def with_steps(self, num_steps: int) -> Self:
        """This model with another number of steps in depth, for inference; it shares the weights.

        Args:
            num_steps: int >= 1. In place of `num_rec_steps`, or of `act_max_steps`.
        Returns:
            a model of the same class, to call, `inspect`, `generate` or `score` with. It is
            compiled as this model is, also where that is compiled later. Files of its weights are
            this model's; `save` keeps its number of steps, too.
        Raises:
            ValueError: if there is no recurrence in depth, or a weight for each step.
        """
        raise ValueError(
            f"num_steps needs a model with recurrence in depth. Received: num_steps={num_steps} "
            f"of a {type(self).__name__}."
        )

    def make_next_logits(
        self, given: Mapping[str, tf.Tensor], beams: int, room: Any, use_cache: bool = True
    ) -> tuple[Callable[..., Any], Any]:
        """What a search asks for the next symbol; see `decoding.next_logits`."""
        return next_logits.make(self, given, beams, room, use_cache)

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        """An empty cache of the decoder.

        Args:
            size: `CacheSize`.
        """
        return self.decoder.start_cache(size)

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        """See `Depth.move_columns`."""
        return self.decoder.move_columns(cache, size, order)

    @property
    def places_matter(self) -> bool:
        """See `Depth.places_matter`."""
        return self.decoder.places_matter

    def extend(
        self, symbols: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any
    ) -> tuple[tf.Tensor, Any]:
        """Decodes some columns, after all that they see.

        Args:
            symbols: int32 [B, Q]. The symbol before each column, 0 before the first.
            cache: what `start_cache` or `extend` returned.
            window: `Window` of the columns.
            memory: as in `decode`.
        Returns:
            (state [B, Q, D], cache).
        """
        x = self._embed(self.target_embedding, symbols)
        if self.target_position is not None:
            x = self.target_position(x, window.positions)
        return self.decoder.extend(x, cache, window, memory)

    @property
    def why_not_cached(self) -> str:
        """Why earlier positions cannot be kept, exactly, while decoding; "" where they can."""
        if self.hparams.self_attention_type == "local_unmasked":
            return "self_attention_type=local_unmasked sees positions that are not written yet"
        return ""

    @property
    def why_source_padding_matters(self) -> str:
        """Why padding behind a source changes what is made of it; "" where it does not."""
        hp = self.hparams
        if hp.self_attention_type == "dot_product_relative_v2" and not hp.relative_mask_future:
            return "self_attention_type=dot_product_relative_v2 shifts by the length in an encoder"
        return ""

    @property
    def why_target_padding_matters(self) -> str:
        """The same of padding behind targets."""
        return ""

    @property
    def decoder_is_causal(self) -> bool:
        """Whether what is decoded so far does not depend on the room left behind it."""
        return True

    # Saving.

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "hparams": self.hparams.to_dict(),
            "specs": {name: list(spec) for name, spec in self.specs.items()},
            "target_space_id": self.target_space_id,
            "trainable": self.trainable,
            "frozen": frozen_layers.paths(self),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        del custom_objects
        specs = {
            name: FeatureSpec(size, modality, tuple(shape), *rest)
            for name, (size, modality, shape, *rest) in config["specs"].items()
        }
        hp = hparam.from_dict(config["hparams"])
        cls.check_arguments(hp, specs)
        model = cls(hp, specs, config["target_space_id"], name=config["name"])
        model.trainable = config.get("trainable", True)
        frozen_layers.freeze(model, config.get("frozen", ()))
        return model
