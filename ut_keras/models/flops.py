"""The number of floating-point operations in the matrix products of an update.

    count = flops.counter(model)
    count(16, 32, 32).total()          16 examples of 32 inputs and 32 targets

A product of [m, k] and [k, n] takes 2 m k n operations: m k n multiplications and m k n additions.
The gradient of a product consists of two products of the same size, so an update takes three times
the operations of a forward pass. All other operations are not counted. Together, they are few.
Recomputed steps (`recompute_grad`) are not counted either.

This module does not import TensorFlow.

References: Chowdhery et al. 2022, PaLM, appendix B ("model FLOPs utilization").
"""

from collections.abc import Callable
from typing import Any, NamedTuple

_GRADIENTS = 3  # an update takes this many times the operations of a forward pass
# The formulas hold for these values of hparams. The first value of each field is also used for
# models without the field.
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "self_attention_type": ("dot_product",),
    "ffn_layer": ("dense_relu_dense", "conv_hidden_relu"),
    "transformer_ffn_type": ("fc",),
    "prepend_mode": ("none",),
    "recurrence_type": ("basic", "act"),
    "recurrence_input_injection": ("none", "add"),
    "recurrence_segments": (1,),
    "recurrence_supervised_every": (0,),
    "recurrence_backprop_steps": (None,),
    "recurrence_fixed_point_loss_weight": (0.0,),
    "num_rec_steps_sampling": (None,),
    "mix_with_transformer": (None,),
    "add_or_concat_timing_signal": ("add",),
    "copy_gate": (False,),
    "add_sru": (False,),
    "act_type": ("basic", "accumulated", "global", "random"),
}
_MODELS = ("Transformer", "UniversalTransformer")


class Flops(NamedTuple):
    """The number of operations of an update."""

    fixed: float  # the operations that do not depend on the number of steps in depth
    per_step: float = 0.0  # the operations of one step, if the model is adaptive; otherwise 0

    def total(self, steps: float = 0.0) -> float:
        """Return the number of operations for a mean number of steps.

        The mean may be a fraction.
        """
        return self.fixed + self.per_step * steps

    def __add__(self, other: Any) -> "Flops":
        return Flops(self.fixed + other.fixed, self.per_step + other.per_step)


def counter(model: Any) -> Callable[[int, int, int], Flops] | None:
    """Return a function that counts the operations of an update, or None.

    The arguments of the function are the number of examples, the length of the inputs and the
    length of the targets, including padding. Without inputs, the length of the inputs is 0. The
    function is known for the Transformer and the Universal Transformer with standard parts, and for
    sequences of tokens.

    Args:
        model: a model with `hparams` and `specs`.
    """
    hp = getattr(model, "hparams", None)
    specs = getattr(model, "specs", {})
    is_known = type(model).__name__ in _MODELS and type(model).__module__.startswith("ut_keras.")
    if not is_known or any(
        spec.modality != "symbol" or spec.shape or name not in ("inputs", "targets")
        for name, spec in specs.items()
    ):
        return None
    if any(getattr(hp, name, values[0]) not in values for name, values in _SUPPORTED.items()):
        return None
    return _Counter(hp, specs["targets"].vocab_size, "inputs" in specs)


class _Counter:
    """The function that `counter` returns.

    Args:
        hp: the hparams of the model.
        vocab_size: int, the size of the vocabulary of the targets.
        has_inputs: bool. Whether the model has an encoder.
    """

    def __init__(self, hp, vocab_size, has_inputs):
        hidden = hp.hidden_size
        self._hidden, self._vocab, self._has_inputs = hidden, vocab_size, has_inputs
        self._key = hp.attention_key_channels or hidden
        self._value = hp.attention_value_channels or hidden
        self._transition = 2 * hidden * hp.filter_size
        recurrence = getattr(hp, "recurrence_type", None)
        self._is_adaptive = recurrence == "act"
        if recurrence is None:
            self._encoder_layers = hp.num_encoder_layers or hp.num_hidden_layers
            self._decoder_layers = hp.num_decoder_layers or hp.num_hidden_layers
            self._steps = 1
        else:
            self._encoder_layers = self._decoder_layers = hp.num_inrecurrence_layers
            self._steps = hp.num_rec_steps

    def __call__(self, examples, source, target):
        # The numbers below are multiply-adds of a forward pass for one example. `source` and
        # `target` are the lengths of the inputs and of the targets.
        # The projections of one position: `queries` is for queries and outputs of attention, and
        # `memory` is for keys and values.
        queries = self._hidden * self._key + self._value * self._hidden
        memory = self._hidden * (self._key + self._value)
        pairs = self._key + self._value  # the logits and the weighted sum, for a pair of positions
        projections = queries + memory + self._transition
        encoder = source * projections + source * source * pairs
        decoder = target * projections + target * target * pairs
        fixed = target * self._hidden * self._vocab
        if self._has_inputs:
            decoder += target * queries + target * source * pairs
            # The Universal Transformer projects the encoder's output once for all steps.
            fixed += source * memory * self._decoder_layers
        step = decoder * self._decoder_layers
        if self._has_inputs:
            step += encoder * self._encoder_layers
        scale = 2.0 * _GRADIENTS * examples
        if self._is_adaptive:
            return Flops(scale * fixed, scale * step)
        return Flops(scale * (fixed + step * self._steps))
