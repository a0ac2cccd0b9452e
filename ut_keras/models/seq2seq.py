"""The frame that every model fills: from ids to logits, and back to symbols.

    ids ─ embed ─ encode ─┐
    ids ─ embed ─ shift right ─ decode ─ logits

A model without source is a language model; a model whose target is a class label has one decoder
position, which sees only the source; an encoder alone answers at its own positions.
"""

from collections.abc import Mapping
from typing import Any, Self

import tensorflow as tf

from ut_keras import hparam
from ut_keras.data.features import FeatureSpec
from ut_keras.decoding import generate as generate_lib
from ut_keras.decoding import score as score_lib
from ut_keras.decoding.beam_search import Decoded
from ut_keras.decoding.options import Options, current_names
from ut_keras.hparam import BasicHParams
from ut_keras.layers.basic import embedding, from_hparams
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.metrics.losses import LossTerm
from ut_keras.models import embedding_tables, keras_model, losses
from ut_keras.models.output import Encoded, Inspection, ModelOutput
from ut_keras.ops import private_api


class Seq2Seq(keras_model.KerasModel):
    """A model of hparams and features.

    A subclass makes its stacks in `_make_stacks`, and has `encode`, `project_memory`, `decode`.
    Make one by `from_hparams` or `ut_keras.models.get`.

    Args:
        hparams: of the class that goes with the model's.
        specs: dict from feature name to `FeatureSpec`: "targets" and, but for language models,
            "inputs".
        target_space_id: int. T2T's id of the kind of target.
        num_steps: int. Steps in depth, where a pass is given none; None: as the hparams say.
        like: a model of the same class, hparams and specs, whose layers it takes. Optional.
    Call arguments:
        features: dict of int32 ids, 0 = padding: "inputs" [B, S] (sentences: [B, sentences,
            words]) and "targets" [B, T] (classes: [B] or [B, 1]). Packed examples have
            "*_segmentation" and "*_position" besides, [B, length].
        num_steps: int. Steps in depth; the most, where positions decide. Optional.
    Returns:
        logits, float32: [B, T, V], or [B, C] for classes.
    """

    encoder: Any = None  # a layer, or None; so is the next
    decoder: Any = None
    has_decoder = True
    needs_inputs = False
    hparams_class: type[BasicHParams] = BasicHParams
    example_set = ""  # a set of these

    def __init__(
        self,
        hparams: BasicHParams,
        specs: Mapping[str, FeatureSpec],
        target_space_id: int = 0,
        num_steps: int | None = None,
        like: "Seq2Seq | None" = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("dtype", from_hparams.dtype_policy(hparams))
        super().__init__(**kwargs)
        self.hparams = hparams
        self.specs = specs
        self.target_space_id = target_space_id
        self.num_steps = num_steps
        self.class_labels = specs["targets"].modality == "class_label"
        if like is not None:
            self._share_layers(like)
            return
        tables = embedding_tables.make(
            hparams, specs, self.dtype_policy, self._softmax_size(hparams)
        )
        self.class_label_head, self.target_embedding, self.softmax, self.source_embedding = tables
        self._make_stacks()
        self._build_all()
        self.check_steps(num_steps)

    @classmethod
    def from_hparams(
        cls,
        hparams: BasicHParams,
        specs: Mapping[str, FeatureSpec],
        target_space_id: int = 0,
        **kwargs: Any,
    ) -> Self:
        """Makes a model.

        Args: as of the class. Where hparams leave `activation_dtype` at float32, Keras' global
            dtype policy says it.
        Raises:
            HParamError: if a field holds a value that is not supported, or not by this model.
            ValueError: if the features do not fit the model.
        """
        cls.check_arguments(hparams, specs)
        hparams = from_hparams.with_global_policy(hparams)
        return cls(hparams, specs, target_space_id, **kwargs)

    @classmethod
    def check_arguments(cls, hparams: BasicHParams, specs: Mapping[str, FeatureSpec]) -> None:
        """Raises what `from_hparams` says."""
        if cls.needs_inputs and "inputs" not in specs:
            raise ValueError(
                f"{cls.__name__} requires a problem with inputs. "
                f"Received: a problem with {', '.join(sorted(specs))}."
            )
        if not isinstance(hparams, cls.hparams_class):
            raise hparam.HParamError(
                f"{cls.__name__} requires hparams of its own class, such as {cls.example_set}. "
                f"Received: {type(hparams).__name__}."
            )
        hparams.check_supported(training=False)
        if "targets" not in specs:
            raise ValueError(f"specs must contain 'targets'. Received: {sorted(specs)}.")
        pooling = getattr(hparams, "class_label_pooling", "mean")
        if cls.has_decoder and specs["targets"].modality == "class_label" and pooling != "mean":
            raise hparam.HParamError(
                "class_label_pooling must be mean if a decoder predicts the class. "
                f"Received: class_label_pooling={pooling} for a {cls.__name__}."
            )

    # Parts.

    def _make_stacks(self) -> None:
        raise NotImplementedError

    @classmethod
    def _softmax_size(cls, hp: Any) -> int:
        """Width of what is scored."""
        return hp.hidden_size

    def _build_all(self):
        """Builds every layer now: the widths are known, the lengths do not matter."""
        ids, state = (None, None), (None, None, self.hparams.hidden_size)
        for layer in self.layers:
            if not layer.built:
                layer.build(ids if isinstance(layer, embedding.SymbolEmbedding) else state)
        self.built = True

    def _share_layers(self, like):
        named = vars(like).items()
        for layer in like.layers:  # in their order
            for name in [name for name, value in named if value is layer]:
                setattr(self, name, layer)
        for name in [name for name, value in named if value is None and name not in vars(self)]:
            setattr(self, name, None)
        self.built = True
        if not like.trainable:
            self.trainable = False
        if like.compiled:
            self.compile(**private_api.compile_arguments(like))

    # The forward pass.

    def __call__(self, features: Any, *args: Any, **kwargs: Any) -> Any:
        self._check_features(features)  # Keras adds pages to what a `call` says
        return super().__call__(features, *args, **kwargs)

    def call(
        self,
        features: Mapping[str, Any],
        training: bool | None = None,
        num_steps: int | None = None,
    ) -> tf.Tensor:
        if training and self.trains_by_steps:
            raise ValueError(
                "A call with training=True is not supported by a model whose loss includes every "
                f"step. Use fit, or forward and loss_terms. Received: training=True of {self.name}."
            )
        output = self.forward(features, training, num_steps=num_steps)
        for terms in losses.cost_terms(self, output).values():
            self.add_loss([term.value() for term in terms])
        return output.logits

    def forward(
        self,
        features: Mapping[str, Any],
        training: bool | None = None,
        record_attention: bool = False,
        num_steps: int | None = None,
        exit_threshold: float | None = None,
    ) -> ModelOutput:
        """The whole pass.

        Args:
            features, training, num_steps: as in a call.
            record_attention: bool. Whether to keep the attention weights.
            exit_threshold: float in (0, 1]. Beyond it a position halts: see `decoding.options`.
        Raises:
            ValueError: if a feature is missing, or as `check_steps`.
        """
        self._check_features(features)
        self.check_steps(num_steps, exit_threshold)
        inputs = StepInputs(
            num_steps=num_steps,
            exit_threshold=exit_threshold,
            record_attention=record_attention,
            training=training,
        )
        return self._forward(features, inputs)

    def _forward(self, features, inputs):
        """The pass itself, of features and steps that are checked; `inputs` are `StepInputs`."""
        encoded = None if self.encoder is None else self.encode(features, inputs)
        if encoded is not None and not self.has_decoder:
            logits = self.logits(encoded.stack.output, padding_mask=encoded.padding_mask)
            return ModelOutput(logits, encoded.stack, None, encoded.padding_mask)
        memory = None if encoded is None else self.project_memory(encoded, features)
        mask = self.target_padding_mask(features)
        decoded = self.decode(features, inputs._replace(memory=memory, padding_mask=mask))
        stack, source_mask = (None, None) if encoded is None else encoded[:2]
        return ModelOutput(self.logits(decoded.output), stack, decoded, source_mask, mask)

    def encode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> Encoded:
        """Encodes the "inputs"; of the `StepInputs` masks and memory are made here."""
        raise NotImplementedError

    def project_memory(self, encoded: Encoded, features: Mapping[str, Any]) -> Any:
        """What the decoder attends to, computed once for all its steps and all its tokens.

        Of the features the segments of packed examples are read.
        """
        raise NotImplementedError

    def target_padding_mask(self, features: Mapping[str, Any]) -> tf.Tensor | None:
        """Which targets are real: bool [B, T]; None where the decoder need not know, as in T2T."""
        segments = features.get("targets_segmentation")
        return None if segments is None else segments != 0

    def decode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> StackOutput:
        """Decodes the "targets", each position seeing those before it; output [B, T, D].

        Args:
            inputs: `StepInputs`: the memory is from `project_memory`, None for a language model;
                the padding mask from `target_padding_mask`, None while targets are still written.
        """
        raise NotImplementedError

    def logits(
        self, x: tf.Tensor, columns: tf.Tensor | None = None, padding_mask: tf.Tensor | None = None
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

    def _embed_shifted(self, ids):
        """Targets as the decoder sees them, [B, T, D]: each one position on, zeros at the first.

        (T2T `common_layers.shift_right_3d`.)
        """
        if self.class_labels:  # a class is not shown to the decoder
            shape = tf.shape(ids)
            return tf.zeros([shape[0], shape[1], self.hparams.hidden_size], self.compute_dtype)
        embedded = self._embed(self.target_embedding, ids)
        return tf.pad(embedded, [[0, 0], [1, 0], [0, 0]])[:, :-1]

    @staticmethod
    def _embed(table, ids):
        """Without Keras' mask: what is padding, a model says itself."""
        return tf.identity(table(ids))

    def _ids(self, features, name):
        """The feature, int32. Sentences are checked where they are embedded."""
        ids = embedding.as_ids(features[name], name, self.specs[name].vocab_size)
        if self.specs[name].modality == "class_label" and ids.shape.rank in (None, 1):
            ids = tf.reshape(ids, [-1, 1])
        if ids.shape.rank != 2 and self.specs[name].modality != "sentences":
            raise ValueError(f"{name} must be [batch, length]. Received: {ids.shape}.")
        return ids

    def _check_features(self, features):
        embedding.check_features(features, self.input_features)
        embedding.check_batch_sizes(features, list(self.specs))

    def loss_terms(
        self,
        output: ModelOutput,
        targets: tf.Tensor,
        training: bool,
        weights: tf.Tensor | None = None,
    ) -> dict[str, list[LossTerm]]:
        """See `losses.terms`; labels are smoothed in training only, as in T2T."""
        smoothing = self.hparams.label_smoothing if training else 0.0
        return losses.terms(self, output, targets, smoothing, weights)

    def inspect(
        self, features: Mapping[str, Any], training: bool = False, num_steps: int | None = None
    ) -> Inspection:
        """A forward pass with everything that can be looked at.

        Args:
            features: as in a call, with the targets; num_steps: as there.
            training: bool. True is T2T's TRAIN mode (dropout, label smoothing), False its EVAL.
        Returns:
            `Inspection`: logits, losses (scalars by T2T's names), encoder and decoder
            (`StackOutput`s with attention weights per step).
        """
        if training not in (True, False, None):
            raise ValueError(f"training must be True or False. Received: {training!r}.")
        self._check_features(features)
        embedding.check_features(features, sorted(self.specs))  # the losses are of all
        self._check_ids(features, list(self.specs))
        output = self.forward(features, training, record_attention=True, num_steps=num_steps)
        terms = self.loss_terms(output, features["targets"], training)
        values = {name: tf.add_n([term.value() for term in parts]) for name, parts in terms.items()}
        if "act_loss" not in values:  # T2T adds "extra" only where nothing else is added
            values.setdefault("extra", tf.constant(0.0))
        return Inspection(output.logits, values, output.encoder, output.decoder)

    # Depth.

    def check_steps(self, num_steps: int | None, exit_threshold: float | None = None) -> None:
        """Checks how deep a pass is to go.

        Raises:
            ValueError: if there is no recurrence in depth, or a weight for each step; with a
                threshold, if no position decides, or it is not in [0, 1].
        """
        arguments = {"num_steps": num_steps, "exit_threshold": exit_threshold}
        for name, value in arguments.items():
            if value is not None:
                raise ValueError(
                    f"{name} requires a model with recurrence in depth. "
                    f"Received: {name}={value} for a {type(self).__name__}."
                )

    def with_steps(self, num_steps: int) -> Self:
        """This model with another number of steps in depth, for inference; it shares the layers.

        Args:
            num_steps: int >= 1. In place of `num_rec_steps`, or of `act_max_steps`.
        Returns:
            a model of the same class, compiled as this one is. Files of its weights are this
            model's; `save` keeps its number of steps, too.
        Raises:
            ValueError: as `check_steps`.
        """
        self.check_steps(num_steps)
        if num_steps is None:
            raise ValueError("num_steps must be an int of at least 1. Received: None.")
        num_steps = int(num_steps)
        arguments = (self.hparams, self.specs, self.target_space_id, num_steps, self)
        return type(self)(*arguments, name=self.name, dtype=self.dtype_policy)

    # Decoding.

    def generate(
        self,
        features: Mapping[str, Any],
        beam_size: int = 1,
        alpha: float = 0.6,
        decode_length: int = 50,
        **options: Any,
    ) -> Decoded:
        """Writes the targets.

        On several cores this is fastest where the program began with
        `tf.config.threading.set_intra_op_parallelism_threads(1)`.

        Args:
            features: dict with "inputs" [B, S]. For a language model, "targets" [B, P] or
                "inputs" [B, P] is the prompt, which the result continues.
            beam_size: int. 1 is greedy.
            alpha: float. Length penalty ((5 + length) / 6)^alpha of beam search.
            decode_length: int. Positions beyond the source's (or the prompt's) length; as in T2T
                that of the padded batch, unless per_example_length=True.
            options: per_example_length, min_length, eos_penalty, no_repeat_ngram_size,
                forced_prefix, temperature, top_k, top_p, seed, cache, num_steps, exit_threshold,
                return_steps: see `decoding.options.Options`.
        Returns:
            `Decoded`: ids int32 [B, beams, <= S + decode_length], 0 behind EOS; scores float32
            [B, beams], best first; with return_steps source_steps and target_steps.
        Raises:
            ValueError: for arguments or ids out of range, or a model without symbol targets.
        """
        self._check_writes_symbols("generate")
        parsed = Options(beam_size, alpha, decode_length, **current_names(options))
        # Of a language model either is a prompt.
        self._check_ids(features, ["inputs"] if "inputs" in self.specs else ["inputs", "targets"])
        return generate_lib.generate(self, features, parsed)

    def score(
        self,
        features: Mapping[str, Any],
        num_steps: int | None = None,
        exit_threshold: float | None = None,
    ) -> tf.Tensor:
        """How likely given targets are.

        Args:
            features: dict with "targets" [B, T] and, but for language models, "inputs" [B, S].
            num_steps, exit_threshold: as of `forward`.
        Returns:
            float32 [B]: log probability of the targets up to their padding, EOS included if it is
            there; no length penalty.
        Raises:
            ValueError: if a feature is missing, ids are out of range, or the model's targets are
                class labels.
        """
        self._check_writes_symbols("score")
        self._check_ids(features, list(self.specs))
        return score_lib.score(self, features, num_steps, exit_threshold)

    def _check_ids(self, features, names):
        """Here, for what is compiled does not say which feature it was."""
        embedding.check_features(features)
        for name in names:
            if name in features:
                spec = self.specs.get(name, self.specs["targets"])
                embedding.as_ids(features[name], name, spec.vocab_size)

    def _check_writes_symbols(self, method):
        if self.class_labels or self.decoder is None:
            kind = "whose targets are class labels" if self.class_labels else "without a decoder"
            raise ValueError(
                f"{method} requires a model that generates tokens one by one. For other models, "
                f"use the argmax of the logits. Received: a model {kind}."
            )

    def prompt(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor | None:
        """What the decoder is shown before it writes, int32 [B, P]; None where that is nothing."""
        return features.get("prompt")

    # Properties of those where it is otherwise; reasons are in words, and "" is none.
    why_not_cached: Any = ""  # why earlier positions cannot be kept, exactly, while decoding
    why_source_padding_matters: Any = ""  # why padding behind a source changes what is made of it
    why_target_padding_matters: Any = ""  # the same of padding behind targets
    is_recurrent = False  # whether a state of one size is all that is kept of what is written
    decoder_is_causal: Any = True  # whether it does not see the room behind what is decoded so far
