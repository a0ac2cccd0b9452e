"""The base class of all models: from ids to logits, and decoding.

    ids ─ embed ─ encode ─┐
    ids ─ embed ─ shift right ─ decode ─ logits

- A model without a source is a language model.
- If the target is a class label, the decoder has one position. This position attends to the source.
- A model without a decoder has one output per position of the encoder.
"""

from collections.abc import Mapping
from typing import Any, Self

import keras
import tensorflow as tf

from ut_keras import hparam_schema
from ut_keras.data.features import FeatureSpec
from ut_keras.decoding import generate as generate_lib
from ut_keras.decoding import score as score_lib
from ut_keras.decoding.beam_search import Decoded
from ut_keras.decoding.options import Options, from_keywords
from ut_keras.hparam_schema import BasicHParams
from ut_keras.layers.basic import embedding, from_hparams, id_checks
from ut_keras.layers.basic.layer import build_all
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.depth.step_recording import StatePatch
from ut_keras.metrics.losses import LossTerm
from ut_keras.models import (
    compiled_functions,
    embedding_tables,
    feature_checks,
    keras_model,
    losses,
    shared_layers,
)
from ut_keras.models.output import Encoded, Inspection, ModelOutput


class Seq2Seq(keras_model.KerasModel):
    """A model made from hparams and the specs of its features.

    To create a model, call `from_hparams` or `ut_keras.models.get`. A subclass creates its stacks
    in `_make_stacks`, and defines `encode`, `project_memory` and `decode`.

    Args:
        hparams: an instance of `hparams_class`.
        specs: dict from feature name to `FeatureSpec`: "targets" and, except for language models,
            "inputs".
        target_space_id: int. T2T's id of the kind of target.
        num_steps: int. Default number of steps in depth. With None, the hparams define it.
        like: a model with the same class, hparams and specs. The new model uses the layers of this
            model. Optional.
    Call arguments:
        features: dict of int32 ids, 0 = padding: "inputs" [B, S] (stories: [B, sentences, words])
            and "targets" [B, T] (classes: [B] or [B, 1]). Packed examples also have
            "*_segmentation" and "*_position", [B, length].
        num_steps: int. Number of steps in depth; with adaptive halting, the maximum. Optional.

    Returns:
        logits, float32: [B, T, V], or [B, C] for classes.
    """

    encoder: Any = None  # a layer, or None
    decoder: Any = None  # a layer, or None
    has_decoder = True
    needs_inputs = False
    hparams_class: type[BasicHParams] = BasicHParams
    example_set = ""  # name of a set of `hparams_class`, for messages

    # Subclasses may also override the following attributes with properties. Each `why_` attribute
    # is a reason in words, or "" if there is no reason. For example, `why_not_cached` is "" if
    # decoding can cache earlier positions exactly.
    why_not_cached: Any = ""  # why decoding cannot cache earlier positions exactly
    why_source_padding_matters: Any = ""  # why padding after a source changes the output
    why_target_padding_matters: Any = ""  # why padding after targets changes the output
    writes_in_parallel = False  # whether a model without a decoder predicts all targets at once
    is_recurrent = False  # whether the decoding cache is a state of fixed size
    decoder_is_causal: Any = True  # whether a position is independent of later positions

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
        self.compiled_functions = compiled_functions.CompiledFunctions(self)
        self.hparams = hparams
        self.specs = specs
        self.target_space_id = target_space_id
        self.num_steps = num_steps
        self.class_labels = specs["targets"].modality == "class_label"
        if like is not None:
            shared_layers.share(self, like)
            return
        tables = embedding_tables.make(
            hparams, specs, self.dtype_policy, self._softmax_size(hparams)
        )
        self.class_label_head, self.target_embedding, self.softmax, self.source_embedding = tables
        self._make_stacks()
        self._check_segments()
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
        """Make a model.

        Args: as for the class. If `activation_dtype` of the hparams is float32, the model uses
            Keras' global dtype policy.

        Raises:
            HParamError: if the value of a field is not supported by ut_keras or by this model.
            ValueError: if the features do not fit the model.
        """
        cls.check_arguments(hparams, specs)
        hparams = from_hparams.with_global_policy(hparams)
        return cls(hparams, specs, target_space_id, **kwargs)

    @classmethod
    def check_arguments(cls, hparams: BasicHParams, specs: Mapping[str, FeatureSpec]) -> None:
        """Raise the errors of `from_hparams`."""
        if cls.needs_inputs and "inputs" not in specs:
            raise ValueError(
                f"{cls.__name__} requires a problem with inputs. "
                f"Received: a problem with {', '.join(sorted(specs))}."
            )
        if not isinstance(hparams, cls.hparams_class):
            raise hparam_schema.HParamError(
                f"{cls.__name__} requires an hparams set for this model, such as "
                f"{cls.example_set}. Received: {type(hparams).__name__}."
            )
        hparams.check_supported(training=False)
        if "targets" not in specs:
            raise ValueError(f"specs must contain 'targets'. Received: {sorted(specs)}.")
        pooling = getattr(hparams, "class_label_pooling", "mean")
        if cls.has_decoder and specs["targets"].modality == "class_label" and pooling != "mean":
            raise hparam_schema.HParamError(
                "class_label_pooling must be mean if a decoder predicts the class. "
                f"Received: class_label_pooling={pooling} for a {cls.__name__}."
            )

    # Parts.

    def _make_stacks(self) -> None:
        """Make the layers of the stacks, and set them as attributes of the model."""
        raise NotImplementedError

    @classmethod
    def _softmax_size(cls, hp: Any) -> int:
        """Return the size of the states from which logits are computed."""
        return hp.hidden_size

    def _build_all(self):
        """Build every layer now. The sizes are known, and the lengths do not matter."""
        ids, state = (None, None), (None, None, self.hparams.hidden_size)
        for layer in self.layers:
            build_all([layer], ids if isinstance(layer, embedding.SymbolEmbedding) else state)
        self.built = True

    # The forward pass.

    def __call__(self, features: Any, *args: Any, **kwargs: Any) -> Any:
        # Keras would add long texts to an error in `call`.
        return super().__call__(self._with_tensors(features), *args, **kwargs)

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
        if training and self.num_segments > 1:
            raise ValueError(
                "A call with training=True is not supported by a model with recurrence_segments. "
                f"Use fit, or forward and loss_terms. Received: training=True of {self.name}."
            )
        output = self.forward(features, training, num_steps=num_steps)
        for terms in losses.cost_terms(self, output).values():
            # Keras adds them to the loss of `compile`, whose dtype is `keras.config.floatx()`.
            self.add_loss([tf.cast(term.value(), keras.config.floatx()) for term in terms])
        return output.logits

    def forward(
        self,
        features: Mapping[str, Any],
        training: bool | None = None,
        record_attention: bool = False,
        num_steps: int | None = None,
        exit_threshold: float | None = None,
        record_steps: bool = False,
        patches: Mapping[str, Mapping[int, StatePatch]] | None = None,
        carried: Any = None,
    ) -> ModelOutput:
        """Run a forward pass.

        With `recurrence_segments`, a forward pass in training takes the steps of one segment.

        Args:
            features, training, num_steps: as in a call.
            record_attention: bool. Whether to return the attention weights.
            exit_threshold: float in (0, 1]. A position halts when the value of its halting rule
                exceeds the threshold. See `decoding.options`.
            record_steps: bool. Whether `recorded` of the encoder's and the decoder's output
                contains the state after every step. True requires inference and a recurrence in
                depth.
            patches: dict with the keys "encoder" and "decoder". Each value is a dict for a stack.
                Its keys are numbers of steps, from 1. Its values are `StatePatch`es, which replace
                the states after these steps. Training does not support patches.
            carried: the field `carried` of the output of the previous segment. None in the first
                segment, and at inference.

        Returns:
            `ModelOutput`.

        Raises:
            ValueError: if a feature is missing, if `check_steps` raises an error, or if training is
                combined with `record_steps` or `patches`. Also if `carried` is set at inference.
        """
        features = feature_checks.with_tensors(features, self.specs, self.input_features)
        self._check_features(features)
        self.check_steps(num_steps, exit_threshold)
        if training and (record_steps or patches):
            raise ValueError(
                "training must be False with record_steps or patches. Received: training=True."
            )
        if carried is not None and not training:
            raise ValueError("carried must be None at inference. Received: training=False.")
        inputs = StepInputs(
            num_steps=num_steps,
            exit_threshold=exit_threshold,
            record_attention=record_attention,
            training=training,
            record_steps=record_steps,
            carried=carried,
        )
        # In a user's `tf.function`, AutoGraph would convert the code of all layers. A layer of the
        # user is not converted either, as in a call of the model.
        run = tf.autograph.experimental.do_not_convert(self._forward)
        return run(features, inputs, patches or {})

    def _forward(
        self,
        features: Mapping[str, Any],
        inputs: StepInputs,
        patches: Mapping[str, Mapping[int, StatePatch]],
    ) -> ModelOutput:
        """Run a forward pass on checked features.

        Args:
            features, patches: as in `forward`.
            inputs: `StepInputs` of both stacks, without their patches.
        """
        encoded = None
        if self.encoder is not None:
            encoded = self.encode(features, inputs._replace(patches=patches.get("encoder")))
        inputs = inputs._replace(patches=patches.get("decoder"))
        if encoded is not None and not self.has_decoder:
            return ModelOutput(
                self.logits(encoded.stack.output, padding_mask=encoded.padding_mask),
                encoder=encoded.stack,
                decoder=None,
                encoder_mask=encoded.padding_mask,
            )
        memory = None if encoded is None else self.project_memory(encoded, features)
        mask = self.target_padding_mask(features)
        decoded = self.decode(features, inputs._replace(memory=memory, padding_mask=mask))
        return ModelOutput(
            self.logits(decoded.output),
            encoder=None if encoded is None else encoded.stack,
            decoder=decoded,
            encoder_mask=None if encoded is None else encoded.padding_mask,
            decoder_mask=mask,
        )

    def encode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> Encoded:
        """Encode the "inputs".

        This method computes the masks of the encoder's `StepInputs`.
        """
        raise NotImplementedError

    def project_memory(self, encoded: Encoded, features: Mapping[str, Any]) -> Any:
        """Return the memory that the decoder attends to.

        The model computes the memory once for all steps and tokens.

        Args:
            encoded: `Encoded`.
            features: dict. The method reads only the segments of packed examples.
        """
        raise NotImplementedError

    def target_padding_mask(self, features: Mapping[str, Any]) -> tf.Tensor | None:
        """Return a mask of real targets, bool [B, T], or None if the decoder uses no mask."""
        segments = features.get("targets_segmentation")
        return None if segments is None else segments != 0

    def decode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> StackOutput:
        """Decode the "targets". The output is [B, T, D].

        The decoder reads the targets shifted right by one position.

        Args:
            features: dict, as in a call.
            inputs: `StepInputs`. The memory comes from `project_memory`, or is None for a language
                model. The padding mask comes from `target_padding_mask`. A search has no padding
                mask.
        """
        raise NotImplementedError

    def logits(
        self, x: tf.Tensor, columns: tf.Tensor | None = None, padding_mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Return logits, float32 [B, T, V], or [B, C] for classes.

        Args:
            x: float tensor [B, T, D], the output of the last stack.
            columns: `SymbolEmbedding.columns()`, for decoding. Optional.
            padding_mask: bool tensor [B, T], True at real tokens, used only for classes. Optional.
        """
        if self.class_labels:
            return self.class_label_head(x, padding_mask)
        return self.softmax.logits(x, columns)

    def _embed_shifted(self, ids):
        """Return the decoder's input [B, T, D]: targets shifted right by one.

        The first position is zero.

        References: T2T `common_layers.shift_right_3d`.
        """
        if self.class_labels:  # a class is not an input of the decoder
            shape = tf.shape(ids)
            return tf.zeros([shape[0], shape[1], self.hparams.hidden_size], self.compute_dtype)
        embedded = self._embed(self.target_embedding, ids)
        return tf.pad(embedded, [[0, 0], [1, 0], [0, 0]])[:, :-1]

    @staticmethod
    def _embed(table, ids):
        """Embed ids and remove Keras' mask, because a model computes its own masks."""
        return tf.identity(table(ids))

    def _ids(self, features, name):
        """Return a feature as an int32 tensor with a batch axis."""
        return feature_checks.to_ids(features, name, self.specs[name])

    # Losses and intermediate results.

    def loss_terms(
        self,
        output: ModelOutput,
        targets: tf.Tensor,
        training: bool,
        weights: tf.Tensor | None = None,
    ) -> dict[str, list[LossTerm]]:
        """Return the terms of the loss. Only training smooths the labels.

        See `losses.terms`.
        """
        smoothing = self.hparams.label_smoothing if training else 0.0
        return losses.terms(self, output, targets, smoothing, weights)

    def inspect(
        self, features: Mapping[str, Any], training: bool = False, num_steps: int | None = None
    ) -> Inspection:
        """Run a forward pass and return its logits, losses and intermediate results.

            out = model.inspect({"inputs": ids, "targets": ids})
            out.encoder.ponder_times  # [B, S]

        Args:
            features: as in a call, including the targets.
            training: bool. True selects T2T's TRAIN mode (dropout, label smoothing), and False
                T2T's EVAL mode. With `recurrence_segments`, True selects only the first segment.
            num_steps: as in a call.

        Returns:
            `Inspection`. Its losses are scalars with T2T's names. Its encoder and decoder are
            `StackOutput`s with the attention weights of every step.
        """
        if training not in (True, False, None):
            raise ValueError(f"training must be True or False. Received: {training!r}.")
        features = feature_checks.with_tensors(features, self.specs, self.specs)
        self._check_features(features)
        id_checks.check_features(features, sorted(self.specs))  # the losses need all features
        feature_checks.check_ids(features, self.specs)
        output = self.forward(features, training, record_attention=True, num_steps=num_steps)
        terms = self.loss_terms(output, features["targets"], training)
        values = {name: tf.add_n([term.value() for term in parts]) for name, parts in terms.items()}
        if "act_loss" not in values:  # T2T reports an "extra" of 0 if there is no auxiliary loss
            values.setdefault("extra", tf.constant(0.0))
        return Inspection(output.logits, values, output.encoder, output.decoder)

    # Depth.

    def check_steps(self, num_steps: int | None, exit_threshold: float | None = None) -> None:
        """Check num_steps and exit_threshold of a forward pass.

        Raises:
            ValueError: if the model does not support one of the two values. Both require a
                recurrence in depth. If the model has learned weights for each step, these weights
                limit `num_steps`. `exit_threshold` also requires adaptive halting, and it must be
                in (0, 1].
        """
        arguments = {"num_steps": num_steps, "exit_threshold": exit_threshold}
        for name, value in arguments.items():
            if value is not None:
                raise ValueError(
                    f"{name} requires a model with recurrence in depth. "
                    f"Received: {name}={value} for a {type(self).__name__}."
                )

    def with_steps(self, num_steps: int) -> Self:
        """Return a model with the same layers and another number of steps in depth.

            deeper = model.with_steps(8)

        Args:
            num_steps: int >= 1, instead of `num_rec_steps` or `act_max_steps`. With
                `recurrence_segments`, it is the number of steps of all segments, and the new model
                cannot be trained.

        Returns:
            a model of the same class, compiled like this model. Each of the two models can load the
            weight files of the other. `save` also stores the number of steps.

        Raises:
            ValueError: if the model does not support this number of steps, see `check_steps`. Also
                if a subclass makes layers with weights that the new model could not share.
        """
        self.check_steps(num_steps)
        if num_steps is None:
            raise ValueError("num_steps must be an int of at least 1. Received: None.")
        num_steps = int(num_steps)
        arguments = (self.hparams, self.specs, self.target_space_id, num_steps, self)
        own = keras_model.own_arguments(self.get_config())
        model = type(self)(*arguments, name=self.name, dtype=self.dtype_policy, **own)
        shared_layers.check(model, self)
        return model

    # Decoding.

    def generate(
        self,
        features: Mapping[str, Any],
        beam_size: int = 1,
        alpha: float = 0.6,
        decode_length: int = 50,
        **options: Any,
    ) -> Decoded:
        """Generate targets by greedy search, beam search or sampling.

            decoded = model.generate({"inputs": ids}, beam_size=4, decode_length=20)
            decoded.ids[:, 0]  # the best output of each example

        On several cores, generation is fastest if the program has first called
        `tf.config.threading.set_intra_op_parallelism_threads(1)`.

        Args:
            features: dict with "inputs" [B, S]. For a language model, "targets" [B, P] or
                "inputs" [B, P] is the prompt. The output continues the prompt.
            beam_size: int. 1 is greedy search.
            alpha: float. Exponent of the length penalty ((5 + length) / 6)^alpha of beam search.
            decode_length: int. The maximum output length is the length of the source or prompt plus
                this number. As in T2T, the length of a source includes the padding of the batch.
                With per_example_length=True, the length does not include padding.
            options: per_example_length, min_length, eos_penalty, no_repeat_ngram_size,
                forced_prefix, temperature, top_k, top_p, seed, cache, num_steps, exit_threshold,
                return_steps: see `decoding.options.Options`.

        Returns:
            `Decoded`. ids are int32 [B, beams, <= S + decode_length], and 0 after EOS. scores are
            float32 [B, beams], in descending order. With return_steps, there are also source_steps
            and target_steps.

        Raises:
            ValueError: if an argument or an id is out of range, or the model does not generate
                tokens.
        """
        # If the model cannot generate, an error about an option would be misleading.
        self._check_writes_symbols("generate")
        named = {"beam_size": beam_size, "alpha": alpha, "decode_length": decode_length}
        return self.search(features, from_keywords({**named, **options}))

    def search(self, features: Mapping[str, Any], options: Options) -> Decoded:
        """Generate targets like `generate`, with options in one object.

        Args:
            features: dict, as for `generate`.
            options: checked `Options`.

        Raises:
            ValueError: if an id is out of range, or the model does not support an option.
        """
        self._check_writes_symbols("generate")
        # The prompt of a language model may be the feature "inputs" or the feature "targets".
        names = ["inputs"] if "inputs" in self.specs else ["inputs", "targets"]
        feature_checks.check_ids(features, self.specs, names)
        self.check_steps(options.num_steps, options.exit_threshold)
        # In a user's `tf.function`, AutoGraph would convert the search, and log an error.
        run = tf.autograph.experimental.do_not_convert(generate_lib.generate)
        return run(self, features, options)

    def score(
        self,
        features: Mapping[str, Any],
        num_steps: int | None = None,
        exit_threshold: float | None = None,
        jit_compile: bool | str = "auto",
    ) -> tf.Tensor:
        """Return the log probability of given targets.

        Args:
            features: dict with "targets" [B, T] and, except for language models, "inputs" [B, S].
            num_steps, exit_threshold: as for `forward`.
            jit_compile: bool or "auto". Whether XLA compiles the forward pass. "auto": on a GPU, if
                XLA can compile it and padding does not change the scores. XLA compiles once for
                each shape, so the batch is padded to powers of two.

        Returns:
            float32 [B]: log probability of the targets without padding. It includes EOS if the
            targets contain EOS. There is no length penalty.

        Raises:
            ValueError: if a feature is missing, ids are out of range, or the model's targets are
                class labels.
        """
        self._check_writes_symbols("score")
        feature_checks.check_ids(features, self.specs)
        self.check_steps(num_steps, exit_threshold)
        Options(jit_compile=jit_compile).check()
        run = tf.autograph.experimental.do_not_convert(score_lib.score)
        return run(self, features, num_steps, exit_threshold, jit_compile)

    def prompt(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor | None:
        """Return the tokens int32 [B, P] that the decoder reads first, or None."""
        return features.get("prompt")

    @property
    def why_encoder_padding_matters(self) -> str:
        if self.decoder is not None:
            return ""
        if not self.class_labels:
            if self.writes_in_parallel:
                return ""
            return "an encoder without a decoder also has outputs at padding"
        is_mean = getattr(self.hparams, "class_label_pooling", "mean") == "mean"
        return "class_label_pooling=mean includes padding" if is_mean else ""

    # Checks.

    def _check_segments(self):
        """Check that the model trains in the segments that the hparams select.

        The learning-rate schedule divides the number of updates by `recurrence_segments`. With a
        model that has one update for each batch, the schedule would be too slow.
        """
        num_segments = getattr(self.hparams, "recurrence_segments", 1)
        if num_segments != self.num_segments:
            raise hparam_schema.HParamError(
                "recurrence_segments requires a Universal Transformer. "
                f"Received: recurrence_segments={num_segments} for a {type(self).__name__}."
            )

    def _check_features(self, features):
        """Check the names and the batch sizes of features. Subclasses add checks."""
        feature_checks.check(features, self.specs, self.input_features)

    def _check_writes_symbols(self, method):
        """Check that the model generates tokens. `method` is the calling method's name."""
        if self.class_labels or (self.decoder is None and not self.writes_in_parallel):
            kind = "whose targets are class labels" if self.class_labels else "without a decoder"
            raise ValueError(
                f"{method} requires a model that generates tokens. For other models, "
                f"use the argmax of the logits. Received: a model {kind}."
            )
