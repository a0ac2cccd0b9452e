"""The Universal Transformer: recurrence in depth, with or without adaptive halting."""

import dataclasses
from collections.abc import Mapping

import keras
import tensorflow as tf

from ut_keras.data.features import FeatureSpec
from ut_keras.hparam import BasicHParams, HParamError, UniversalTransformerHParams
from ut_keras.layers import halting, same_weights
from ut_keras.models import assemble, transformer, transformer_encoder

# What Keras has traced: of a view it is of another number of steps.
_TRACED = ("train_function", "test_function", "predict_function")


@dataclasses.dataclass(frozen=True)
class _Family:
    """A model and its views by their numbers of steps: what all of them hold.

    Not a dict of the model's, which Keras would save.
    """

    model: keras.Model
    views: dict


class _RecurrentDepth:
    """What the models below share: how depth is made, and what of it other positions feel."""

    def _stack(self, side):
        return assemble.recurrent_stack(self.hparams, side)

    def _position(self, side, name):
        said_in_steps = bool(self.hparams.why_without_effect("pos"))  # T2T sets pos=None then
        return None if said_in_steps else super()._position(side, name)

    def with_steps(self, num_steps):
        family = vars(self).setdefault("_family", _Family(self, {}))
        if num_steps not in family.views:
            hp = self.hparams.override({self._steps_field: num_steps})
            stacks = {"encoder": self.encoder, "decoder": self.decoder}
            stacks = {side: stack and stack.with_steps(num_steps) for side, stack in stacks.items()}
            changed = {**stacks, "hparams": hp, **dict.fromkeys(_TRACED), "_searches": {}}
            view = same_weights.view(family.model, **changed)
            vars(view).pop("_score", None)
            family.views[num_steps] = view
        return family.views[num_steps]

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        family = vars(self).get("_family")
        if family is None or self is not family.model:
            return
        kept = ("encoder", "decoder", "hparams", "_searches", "_score")
        compiled = {name: value for name, value in vars(self).items() if name not in kept}
        for view in family.views.values():
            vars(view).update({**compiled, **dict.fromkeys(_TRACED)})

    def save_weights(self, *args, **kwargs):
        model = self._without_other_steps()
        return (super() if model is self else model).save_weights(*args, **kwargs)

    def load_weights(self, *args, **kwargs):
        model = self._without_other_steps()
        return (super() if model is self else model).load_weights(*args, **kwargs)

    def get_config(self):
        model = self._without_other_steps()
        if model is self:
            return super().get_config()
        return {**model.get_config(), "num_steps": getattr(self.hparams, self._steps_field)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        model = super().from_config(config, custom_objects)
        return model.with_steps(config["num_steps"]) if "num_steps" in config else model

    @property
    def _steps_field(self):
        """The hparam that says how many steps there are."""
        return "act_max_steps" if self.hparams.recurrence_type == "act" else "num_rec_steps"

    def _without_other_steps(self):
        """The model that it is a view of, if it is one."""
        family = vars(self).get("_family")
        return self if family is None else family.model

    def target_padding_mask(self, features):
        mask = super().target_padding_mask(features)
        hp = self.hparams
        ponders = hp.recurrence_type == "act" and hp.act_mask_padding
        if mask is not None or not ponders or self.class_labels:  # class 0 is no padding
            return mask
        # A 0 that something follows was written like any other symbol.
        real = tf.cast(self._ids(features, "targets") != 0, tf.int32)
        return tf.cumsum(real, axis=1, reverse=True) > 0

    @property
    def why_not_cached(self):
        hp = self.hparams
        if self._starts_by_length:
            start = hp.position_start_index
            return f"position_start_index={start} gives positions other signals at every length"
        if self._halts_by_example:
            return f"act_type={hp.act_type} lets a position depend on those behind it"
        if self._halting is not None and not self._halting.decides_alone:
            return f"act_type={hp.act_type} draws anew at every pass"
        return super().why_not_cached

    @property
    def why_source_padding_matters(self):
        return self._why_length_matters() or super().why_source_padding_matters

    @property
    def why_target_padding_matters(self):
        if self.class_labels:  # one position
            return ""
        return self._why_length_matters() or super().why_target_padding_matters

    def _why_length_matters(self):
        hp = self.hparams
        if self._starts_by_length:
            return f"position_start_index={hp.position_start_index} goes by the length"
        if self._halts_by_example and not self._halting.mask_padding:
            return f"act_type={hp.act_type} halts by a mean over padding too"
        return ""

    @property
    def decoder_is_causal(self):
        return not (self._starts_by_length or self._halts_by_example)

    @property
    def _starts_by_length(self):
        hp = self.hparams
        return hp.add_position_timing_signal and hp.position_start_index is not None

    @property
    def _halts_by_example(self):
        return self._halting is not None and self._halting.by_example

    @property
    def _halting(self):
        """The `halting.Rule` of its stacks, or None."""
        depth = (self.encoder if self.decoder is None else self.decoder).depth
        return getattr(getattr(depth, "recurrence", depth), "halting", None)


@keras.saving.register_keras_serializable(package="ut_keras")
class UniversalTransformer(_RecurrentDepth, transformer.Transformer):
    """Encoder and decoder that repeat one block over depth.

    Arguments, calls and returns are those of `Transformer`; the hparams say how often the block is
    repeated (`num_rec_steps`) or that each position decides (`recurrence_type="act"`).

    References: Dehghani et al. 2019; T2T `models/research/universal_transformer.py`.
    """

    @classmethod
    def check_arguments(cls, hparams: BasicHParams, specs: Mapping[str, FeatureSpec]) -> None:
        super().check_arguments(hparams, specs)
        if _halts_by(hparams, "q_halt"):
            raise HParamError(
                "act_type=q_halt needs an encoder alone, universal_transformer_encoder, each step "
                "of which has an answer. Received: universal_transformer."
            )


@keras.saving.register_keras_serializable(package="ut_keras")
class UniversalTransformerEncoder(_RecurrentDepth, transformer_encoder.TransformerEncoder):
    """An encoder without decoder, for classification; see `TransformerEncoder`.

    References: T2T `UniversalTransformerEncoder`.
    """

    @classmethod
    def check_arguments(
        cls, hparams: UniversalTransformerHParams, specs: Mapping[str, FeatureSpec]
    ) -> None:
        super().check_arguments(hparams, specs)
        if _halts_by(hparams, "ponder_net", "q_halt"):
            halting.check_ends(hparams)

    def _make_stacks(self):
        super()._make_stacks()
        self.encoder.answer(self.hparams.class_label_pooling if self.class_labels else None)


def _halts_by(hp, *rules):
    return getattr(hp, "recurrence_type", None) == "act" and hp.act_type in rules
