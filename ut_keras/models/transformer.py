"""The Transformer, which is also the base class of the Universal Transformer."""

import logging
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.data.features import FeatureSpec
from ut_keras.errors import ENCODER_LENGTHS
from ut_keras.hparam_schema import BasicHParams, TransformerHParams
from ut_keras.layers.attention import attention, block_attention
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.attention.attention_mask import AttentionMask
from ut_keras.layers.basic import dropout as dropout_lib
from ut_keras.layers.basic import embedding, from_hparams, plugged_in, position_probe, renamed
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.layers.depth import initial_state, stack, transformer_layer
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.models import flops, prepended, seq2seq
from ut_keras.models.output import Encoded, ModelOutput
from ut_keras.ops import private_api

_LOG = logging.getLogger("ut_keras")

parts.load_all()  # each part is registered in the file of its layer


@keras.saving.register_keras_serializable(package="ut_keras")
class Transformer(seq2seq.Seq2Seq):
    """Encoder and decoder of T2T's `transformer`.

    Arguments, call arguments and returns are those of `Seq2Seq`. The hparams are
    `TransformerHParams`.

    References: Vaswani et al. 2017; T2T `models/transformer.py`.
    """

    hparams_class = TransformerHParams
    example_set = "transformer_base"
    source_position: keras.layers.Layer | None = None
    target_position: keras.layers.Layer | None = None

    @classmethod
    def check_arguments(cls, hparams: BasicHParams, specs: Mapping[str, FeatureSpec]) -> None:
        super().check_arguments(hparams, specs)
        prepended.check(hparams, specs, cls.has_decoder)

    # Parts.

    def _make_stacks(self) -> None:
        hp = self.hparams
        self.encoder = self.decoder = self.target_space = None
        if "inputs" in self.specs:
            pooling = hp.class_label_pooling if self.class_labels else None
            self.encoder = self._stack(parts.Side("encoder", not self.has_decoder, pooling))
            self.source_position = self._position("encoder", "source_position")
            self.source_dropout = self._embedding_dropout("source_dropout")
            if hp.use_target_space_embedding:
                self.target_space = embedding.TargetSpaceEmbedding(
                    self.target_space_id, name="target_space_embedding", **from_hparams.common(hp)
                )
        if self.has_decoder:
            side = "decoder" if "inputs" in self.specs else "language_model"
            self.decoder = self._stack(parts.Side(side))
            self.target_position = self._position("decoder", "target_position")
            self.target_dropout = self._embedding_dropout("target_dropout")

    def _embedding_dropout(self, name):
        rate = self.hparams.embedding_dropout
        rate = self.hparams.layer_prepostprocess_dropout if rate is None else rate
        return dropout_lib.Dropout(rate, name=name, dtype=self.dtype_policy)

    def _stack(self, side):
        """Return an encoder or a decoder."""
        hp = self.hparams
        return stack.Stack(
            self._depth(side),
            hp.layer_preprocess_sequence,
            **from_hparams.processing(hp),
            name="encoder" if side == "encoder" else "decoder",
            dtype=from_hparams.dtype_policy(hp),
        )

    def _depth(self, side):
        """Return the layers of a stack. The Universal Transformer overrides this method."""
        hp = self.hparams
        specific = hp.num_encoder_layers if side == "encoder" else hp.num_decoder_layers
        block = stack.make_block(hp, side, specific or hp.num_hidden_layers, "layer")
        return stack.make_layered_depth(hp, block, "depth")

    def _position(self, side, name):
        """Return the layer that adds position signals once, before a stack, or None."""
        hp = self.hparams
        signal = None if hp.pos is None else parts.position_signals.get(hp.pos)(hp, side)
        if signal is not None:
            shared = renamed.get(signal, "sample_position_ids", "draw_places") is not None
            plugged_in.check_call("pos", signal, 1 if shared else 2)
            signal.name = name
        return signal

    def _build_all(self):
        """Build every layer, including layers inside a user's part without `build`.

        Such a part builds its layers at the first call. If this call happened in the loop of a
        recurrence, the optimizer would not know the new weights. This method therefore calls the
        stacks once.
        """
        super()._build_all()
        positions = (self.source_position, self.target_position)
        if not any(plugged_in.unbuilt_layers((self.encoder, self.decoder, *positions))):
            self._warn_of_later_positions()
            return
        x = tf.zeros([1, 2, self.hparams.hidden_size], self.compute_dtype)
        ids = tf.ones([1, 2], tf.int32)
        features = {"inputs": ids, "targets": ids}
        for layer, side in zip(positions, features, strict=True):
            self._add_position(layer, x, features, side, training=False)
        inputs = StepInputs(padding_mask=ids > 0, training=False)
        if self.encoder is not None:
            with keras.name_scope(self.encoder.name):  # so that the paths of weights are unique
                self.encoder.forward(x, inputs)
        if self.decoder is not None:
            memory = None if self.encoder is None else self.decoder.project_memory(x, None)
            with keras.name_scope(self.decoder.name):
                self.decoder.forward(x, inputs._replace(memory=memory))
        self._warn_of_later_positions()

    @property
    def count_flops(self) -> Any:
        """The function that counts the operations of an update, or None.

        See `flops.counter`.
        """
        return flops.counter(self)

    # The forward pass.

    def _forward(
        self, features: Mapping[str, Any], inputs: StepInputs, patches: Mapping[str, Any]
    ) -> ModelOutput:
        """Run a forward pass.

        With `prepend_mode`, `ModelOutput.decoder` includes the inputs.
        """
        features = self._with_position_ids(features) if inputs.training else features
        mode = self.hparams.prepend_mode
        if mode == "none":
            return super()._forward(features, inputs, patches)
        joined = prepended.join(features, *(self._ids(features, x) for x in ("inputs", "targets")))
        output = super()._forward({**features, "targets": joined.ids}, inputs, patches)
        predicts_inputs = inputs.training and mode == prepended.MASKED
        return output._replace(
            logits=tf.gather(output.logits, joined.target_positions, batch_dims=1),
            prepended=(output.logits, joined.input_ids) if predicts_inputs else None,
        )

    def _with_position_ids(self, features):
        """Add "position_ids" to the features if both sides must use the same position ids."""
        layer = self.target_position if self.encoder is None else self.source_position
        sample = renamed.get(layer, "sample_position_ids", "draw_places")
        if sample is None:
            return features
        batch_size = tf.shape(next(iter(features.values())))[0]
        return {**features, "position_ids": sample(batch_size)}

    @staticmethod
    def _add_position(layer, x, features, side, training):
        """Return `x` plus the position signal of a side, "inputs" or "targets".

        If `layer` is None, the side has no position signal, and the result is `x`.
        """
        if layer is None:
            return x
        positions = features.get(f"{side}_position")  # only packed examples have this feature
        if renamed.get(layer, "sample_position_ids", "draw_places") is None:
            return layer(x, positions, training=training)
        if positions is not None:
            raise ValueError(
                "Position ids that both sides share do not support packed examples. "
                f"Received: {side}_position."
            )
        ids = tf.convert_to_tensor(features["inputs"]) if side == "inputs" else None
        keyword = "position_ids" if hasattr(layer, "sample_position_ids") else "places"
        shared = {keyword: features.get("position_ids")}
        return layer(x, training=training, ids=ids, **shared)

    def encode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> Encoded:
        ids = self._ids(features, "inputs")
        padding_mask = ids != 0 if ids.shape.rank == 2 else tf.reduce_any(ids != 0, axis=-1)
        segments = features.get("inputs_segmentation")
        if segments is not None:
            padding_mask = segments != 0
        if segments is None and not self.hparams.unidirectional_encoder:
            may_attend = attention.padding_attention_mask(padding_mask)
        else:
            # Padding is at the end. So in a unidirectional encoder only padding attends to padding,
            # and the mask need not hide padding. T2T ignores segments in such an encoder.
            may_attend = self._attention_mask(
                ids, ids, segments, segments, self.hparams.unidirectional_encoder
            )
        x = self._embed(self.source_embedding, ids)
        if self.target_space is not None:
            x = self.target_space(x)
        x = self._add_position(self.source_position, x, features, "inputs", inputs.training)
        x = self.source_dropout(x, training=inputs.training)
        inputs = self._stack_inputs(inputs, may_attend)._replace(padding_mask=padding_mask)
        return Encoded(self.encoder.forward(x, inputs), padding_mask)

    def project_memory(self, encoded: Encoded, features: Mapping[str, Any]) -> Any:
        """Return a tuple of `Memory`, see `Seq2Seq.project_memory`."""
        may_attend = attention.padding_attention_mask(encoded.padding_mask)
        if "inputs_segmentation" in features:
            query, key = features["targets_segmentation"], features["inputs_segmentation"]
            may_attend = self._attention_mask(query, key, query, key)
        return self.decoder.project_memory(encoded.stack.output, may_attend)

    def _attention_mask(self, queries, keys, query_segments, key_segments, causal=False):
        """Return a mask for ids [B, T] and [B, S]. It hides other segments and later keys."""
        segments = None
        if query_segments is not None:
            query = tf.convert_to_tensor(query_segments)
            same = key_segments is query_segments
            segments = query, query if same else tf.convert_to_tensor(key_segments)
        query_length, key_length = (
            tf.shape(ids)[1] if ids.shape[1] is None else ids.shape[1] for ids in (queries, keys)
        )
        mask = AttentionMask(query_length, key_length, causal=causal, segments=segments)
        return block_attention.prepare_mask(
            mask, self.hparams.attention_block_size, self.hparams.max_length
        )

    def decode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> StackOutput:
        ids = self._ids(features, "targets")
        segments = features.get("targets_segmentation")
        may_attend = self._attention_mask(ids, ids, segments, segments, causal=True)
        if self.hparams.prepend_mode == prepended.FULL:
            may_attend |= prepended.inputs_mask(ids)
        x = self._embed_shifted(ids)
        x = self._add_position(self.target_position, x, features, "targets", inputs.training)
        x = self.target_dropout(x, training=inputs.training)
        return self.decoder.forward(x, self._stack_inputs(inputs, may_attend))

    def _stack_inputs(self, inputs, attention_mask):
        """Return the `StepInputs` of an encoder or a decoder.

        A stack returns no attention weights unless they are recorded. So its layers need not return
        them either, and may compute attention by blocks.
        """
        return inputs._replace(
            attention_mask=attention_mask,
            num_steps=inputs.num_steps or self.num_steps,
            record_attention=bool(inputs.record_attention),
        )

    @property
    def trains_by_steps(self) -> bool:
        return (self.decoder if self.has_decoder else self.encoder).trains_by_steps

    @property
    def num_segments(self) -> int:
        return (self.decoder if self.has_decoder else self.encoder).num_segments

    # Decoding.

    def prompt(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor | None:
        if self.hparams.prepend_mode != "none":
            return tf.pad(features["inputs"], [[0, 0], [0, 1]])
        return super().prompt(features)

    def extend(
        self, symbols: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any
    ) -> tuple[tf.Tensor, Any]:
        """Decode new columns of a cache, see `Depth.extend`.

        Args:
            symbols: int32 [B, Q], the token before each column. At the first position it is 0.
            cache: the decoder's cache. It must contain all earlier columns that the new columns
                attend to.
            window: `Window` of the new columns.
            memory: from `project_memory`.

        Returns:
            (state [B, Q, D], cache).
        """
        x = self._embed(self.target_embedding, symbols)
        if self.target_position is not None:
            x = self.target_position(x, window.positions)
        return self.decoder.extend(x, cache, window, memory)

    @property
    def why_not_cached(self) -> str:
        if self.hparams.prepend_mode == prepended.FULL:
            return f"prepend_mode={prepended.FULL} lets inputs attend to each other"
        return self._why_decoder_mixes()

    @property
    def decoder_is_causal(self) -> bool:
        return not self._why_decoder_mixes()

    def _why_decoder_mixes(self):
        """Return why a part of the decoder depends on other positions, or ""."""
        for name, reads in self._probe_positions(self.decoder):
            if reads.other_positions:
                return f"the {name} reads other positions"
        return ""

    def _probe_positions(self, side):
        """Yield (name, `Reads`) for the parts of `side`, the encoder, the decoder or None."""
        width = self.hparams.hidden_size
        signal = self.target_position if side is self.decoder else self.source_position
        if side is not None and signal is not None:
            yield f"position signal {signal.name}", position_probe.probe_signal(signal, width)
        for layer in () if side is None else private_api.flatten_layers(side):
            is_layer = isinstance(layer, transformer_layer.TransformerLayer)
            if is_layer and layer.transition is not None:
                yield f"transition {layer.transition.name}", layer.transition_reads
            for part, reads in initial_state.probe_positions(layer, width):
                yield f"layer {part.name}", reads

    def _warn_of_later_positions(self):
        """Log a warning if a part of the decoder reads the tokens that it should predict."""
        if self.decoder is None or self.class_labels:
            return
        found = self._probe_positions(self.decoder)
        if name := next((name for name, reads in found if reads.later_positions), ""):
            _LOG.warning(
                "The %s of the decoder reads later positions. In training, it therefore reads the "
                "tokens that the model must predict, and a search does not have these tokens.",
                name,
            )

    @property
    def why_target_padding_matters(self) -> str:
        return "" if self.class_labels else self._why_decoder_mixes()

    @property
    def why_source_padding_matters(self) -> str:
        for name, reads in self._probe_positions(self.encoder):
            if reads.padding:
                return f"the {name} reads padding"
        hp = self.hparams
        if hp.self_attention_type == "dot_product_relative_v2" and not hp.relative_mask_future:
            return "self_attention_type=dot_product_relative_v2 depends on the length in an encoder"
        if hp.prepend_mode != "none":
            return f"prepend_mode={hp.prepend_mode} puts the targets after the inputs"
        return ""


@keras.saving.register_keras_serializable(package="ut_keras")
class TransformerEncoder(Transformer):
    """An encoder without a decoder, for classification.

    Arguments and call arguments are those of `Transformer`. The model reads only "inputs". For
    class labels the logits are [B, C], and the hparam `class_label_pooling` selects how the source
    positions are pooled. For symbols the logits are [B, S, V], one vector per source position.

    References: T2T `models/transformer.py` `TransformerEncoder`.
    """

    has_decoder = False
    needs_inputs = True

    def match_lengths(self, logits: tf.Tensor, targets: tf.Tensor, *weights: Any) -> tuple:
        """Return the arguments, and check that the targets are as long as the inputs.

        Raises:
            tf.errors.InvalidArgumentError: if the lengths differ. Data of another task, such
                as translation, would otherwise fail in an operation that does not name the reason.
        """
        if self.class_labels:
            return (logits, targets, *weights)
        targets = tf.convert_to_tensor(targets)
        lengths = (logits.shape[1], targets.shape[1]) if targets.shape.rank == 2 else ()
        if None in lengths:  # the loss checks static lengths
            same = tf.debugging.assert_equal(
                *(tf.shape(x)[1] for x in (logits, targets)), message=ENCODER_LENGTHS
            )
            with tf.control_dependencies([same] if same is not None else []):
                targets = tf.identity(targets)
        return (logits, targets, *weights)

    @property
    def input_features(self) -> list[str]:
        return ["inputs"]
