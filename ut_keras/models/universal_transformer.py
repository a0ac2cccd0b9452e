"""The Universal Transformer: recurrence in depth, with optional adaptive halting."""

import logging
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.decoding.options import Options
from ut_keras.hparam_schema import HParamError, UniversalTransformerHParams
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.layers.depth import mixed_depth
from ut_keras.layers.halting import halting
from ut_keras.models import transformer
from ut_keras.models.output import Encoded, ModelOutput

_LOG = logging.getLogger("ut_keras")


@keras.saving.register_keras_serializable(package="ut_keras")
class UniversalTransformer(transformer.Transformer):
    """Encoder and decoder that repeat one block over depth.

    Arguments, call arguments and returns are those of `Transformer`. The hparam `num_rec_steps`
    defines how often the model repeats the block. With `recurrence_type="act"`, each position halts
    adaptively instead.

    References: Dehghani et al. 2019; T2T `models/research/universal_transformer.py`.
    """

    hparams_class = UniversalTransformerHParams
    example_set = "universal_transformer_tiny"
    _has_warned = False  # whether the warning about packed rows was logged

    def _depth(self, side):
        hp = self.hparams
        depth = parts.recurrences.get(hp.recurrence_type)(hp, side)
        _check_gradient_settings(hp, depth)
        return mixed_depth.make(hp, side, depth) if hp.mix_with_transformer else depth

    def _forward(
        self, features: Mapping[str, Any], inputs: StepInputs, patches: Mapping[str, Any]
    ) -> ModelOutput:
        is_packed = any(f"{side}_position" in features for side in self.specs)
        if is_packed and self.hparams.add_position_timing_signal and not self._has_warned:
            _LOG.warning(
                "In packed rows, the position signals that each step adds count from the start of "
                "the row, as in T2T. For signals that count from the start of each example, use "
                "add_position_timing_signal=False and pos=timing."
            )
            self._has_warned = True
        return super()._forward(features, inputs, patches)

    def encode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> Encoded:
        if "inputs_segmentation" in features and self._steps_by_length:
            raise ValueError(
                "num_rec_steps_sampling='by_length' does not support packed examples, because all "
                "segments of an example take the same number of steps. "
                "Received: inputs_segmentation."
            )
        return super().encode(features, inputs)

    @property
    def _steps_by_length(self):
        depth = getattr(self.encoder.depth, "recurrence", self.encoder.depth)
        sampling = getattr(depth, "steps_sampling", None)
        return sampling is not None and sampling.per_example

    def _position(self, side, name):
        in_step_signals = bool(self.hparams.ignored_reason("pos"))  # in this case T2T sets pos=None
        return None if in_step_signals else super()._position(side, name)

    def target_padding_mask(self, features: Mapping[str, Any]) -> tf.Tensor | None:
        mask = super().target_padding_mask(features)
        hp = self.hparams
        ponders = hp.recurrence_type == "act" and hp.act_mask_padding
        reads_mask = ponders or hp.recurrence_fixed_point_loss_weight > 0
        if mask is not None or not reads_mask or self.class_labels:  # 0 is a class, not padding
            return mask
        # A 0 that is followed by other ids is a generated token, not padding.
        is_real = tf.cast(self._ids(features, "targets") != 0, tf.int32)
        return tf.cumsum(is_real, axis=1, reverse=True) > 0

    def check_steps(self, num_steps: int | None, exit_threshold: float | None = None) -> None:
        Options(num_steps=num_steps, exit_threshold=exit_threshold).check()
        for stack in filter(None, (self.encoder, self.decoder)):
            stack.check_steps(num_steps)
        if exit_threshold is None:
            return
        if not exit_threshold:  # with a threshold of 0, no position would take a step
            raise ValueError(f"exit_threshold must be above 0. Received: {exit_threshold}.")
        if self._rule is None:
            raise ValueError(
                "exit_threshold requires a model with adaptive halting. "
                f"Received: a model with recurrence_type={self.hparams.recurrence_type!r}."
            )

    @property
    def why_not_cached(self) -> str:
        hp, rule = self.hparams, self._rule
        if self._starts_by_length:
            start = hp.position_start_index
            return f"position_start_index={start} makes the signals depend on the length"
        if rule is not None and rule.per_example:
            return f"act_type={hp.act_type} lets a position depend on later ones"
        if rule is not None and not rule.halts_independently:
            return f"act_type={hp.act_type} samples anew in every forward pass"
        return super().why_not_cached

    @property
    def why_source_padding_matters(self) -> str:
        return self._why_length_matters() or super().why_source_padding_matters

    @property
    def why_target_padding_matters(self) -> str:
        if self.class_labels:  # the decoder has one position
            return ""
        return self._why_length_matters() or super().why_target_padding_matters

    def _why_length_matters(self):
        hp, rule = self.hparams, self._rule
        if self._starts_by_length:
            return f"position_start_index={hp.position_start_index} depends on the length"
        if rule is not None and rule.per_example and not rule.mask_padding:
            return f"act_type={hp.act_type} halts by a mean that includes padding"
        return ""

    @property
    def decoder_is_causal(self) -> bool:
        if self._starts_by_length or self._rule is not None and self._rule.per_example:
            return False
        return super().decoder_is_causal

    @property
    def _starts_by_length(self):
        hp = self.hparams
        return hp.add_position_timing_signal and hp.position_start_index is not None

    @property
    def _rule(self) -> halting.Rule | None:
        return (self.decoder if self.has_decoder else self.encoder).rule


def _check_gradient_settings(hp, depth):
    """Check that a user's recurrence supports the hparams that change its gradient.

    Raises:
        HParamError: if such an hparam is set and the recurrence lacks the corresponding argument.
    """
    for name, argument in _GRADIENT_SETTINGS.items():
        value = getattr(hp, name)
        if value and getattr(depth, argument, None) != value:
            raise HParamError(
                f"{name} requires a recurrence_type with the argument {argument}, such as 'basic'. "
                f"Received: {name}={value!r} with recurrence_type={hp.recurrence_type!r}."
            )


_GRADIENT_SETTINGS = {
    "recompute_grad": "recompute_grad",
    "recurrence_backprop_steps": "backprop_steps",
    "recurrence_fixed_point_loss_weight": "fixed_point_loss_weight",
    "recurrence_segments": "num_segments",
}


@keras.saving.register_keras_serializable(package="ut_keras")
class UniversalTransformerEncoder(UniversalTransformer, transformer.TransformerEncoder):
    """An encoder without a decoder, for classification; see `TransformerEncoder`.

    References: T2T `UniversalTransformerEncoder`.
    """
