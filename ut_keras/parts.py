"""Registries that map the names in hparams to the parts of a model.

    @parts.transitions.register("gated_linear")
    def gated_linear(hp, side):
        return GatedLinear(hp.filter_size, hp.hidden_size, name="gated_linear")

After this registration, `--hparams=ffn_layer=gated_linear` uses the layer. A registered object is
called a maker. A maker is a function of the hparams and a `Side`, and it returns a new layer. A
maker may have further arguments. The values of these arguments follow the name of the maker:
`--hparams="ffn_layer='sigma_moe(num_experts=16, k=4)'"`. Each built-in part is registered in the
same way, in the file of its layer. This module does not import TensorFlow.
"""

import ast
import functools
import importlib
import inspect
import pkgutil
from typing import Any, Self

from ut_keras import errors, registry


class PartRegistry(registry.Registry):
    """A registry that finds a maker by "name" or by "name(argument=value, ...)".

    If a name is unknown, the registry imports all modules of `ut_keras.layers`, which import
    TensorFlow.
    """

    def get(self, name: str) -> Any:
        """Return the maker of a part, with the arguments in `name` already bound.

        Raises:
            UnknownNameError: in the same cases as `Registry.get`.
            UserError: if the maker does not accept the arguments.
        """
        word, given = _parse(name)
        maker = super().get(word)
        signature = inspect.signature(maker)
        try:
            signature.bind_partial("hp", "side")
        except TypeError as error:
            raise errors.UserError(
                f"{self.kind}={word} must be a function whose first two arguments are hp and side. "
                f"Received: {getattr(maker, '__name__', maker)}{signature}."
            ) from error
        takes = list(signature.parameters.values())[2:]
        any_kind = (inspect.Parameter.empty, None)
        kinds = {p.name: type(p.default) for p in takes if p.default not in any_kind}
        for argument in given:
            if kinds.get(argument) is float and type(given[argument]) is int:
                given[argument] = float(given[argument])
        try:
            signature.bind("hp", "side", **given)
            fits = all(type(given[key]) is kinds[key] for key in given if key in kinds)
        except TypeError:
            fits = False
        if not fits:
            raise errors.UserError(
                f"{self.kind}={word} must have the arguments ({', '.join(map(str, takes))}). "
                f"Received: {name}."
            )
        return functools.partial(maker, **given) if given else maker

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        word, _ = _parse(name)
        if not super().__contains__(word):
            load_all()
        return super().__contains__(word)


def _parse(name):
    """Split a text into (name, arguments), such as ("sigma_moe", {"k": 4})."""
    try:
        call: Any = ast.parse(str(name), mode="eval").body
        given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        return (name, {}) if call.args or None in given else (call.func.id, given)
    except (SyntaxError, ValueError, AttributeError):
        return name, {}  # The text is not a call, so it is only a name.


@functools.cache
def load_all() -> None:
    """Import all modules of `ut_keras.layers`, so that every built-in part registers."""
    layers = importlib.import_module("ut_keras.layers")
    for module in pkgutil.walk_packages(layers.__path__, f"{layers.__name__}."):
        importlib.import_module(module.name)


# Makers of a `layers.depth.Depth`, for the hparam `recurrence_type`.
recurrences = PartRegistry("recurrence_type")
# Makers of an input injection, for the hparam `recurrence_input_injection`. An injection is a layer
# ([B, S, D] state, [B, S, D] input) -> [B, S, D] that a recurrence applies before every step. A
# maker returns None for no injection.
injections = PartRegistry("recurrence_input_injection")
# Makers of an initial state, for the hparam `recurrence_initial_state`. An initial state is a layer
# [B, S, D] input -> [B, S, D] with the argument `training`. The layer returns the state before the
# first step. A maker returns None if the state before the first step is the input itself.
initial_states = PartRegistry("recurrence_initial_state")
# Makers of a `layers.depth.step_sampling.StepSampling`, for the hparam `num_rec_steps_sampling`. A
# maker returns None for a fixed number of steps.
step_samplings = PartRegistry("num_rec_steps_sampling")
# Makers of a `layers.halting.Rule`, for the hparam `act_type`. In a recurrence of the type "act",
# the rule decides when a position halts.
haltings = PartRegistry("act_type")
# Makers of a layer with the interface of `layers.attention.MultiHeadAttention`, for the hparam
# `self_attention_type`.
self_attentions = PartRegistry("self_attention_type")
# Makers of a layer [B, S, D] -> [B, S, D], for the hparams `ffn_layer` and `transformer_ffn_type`.
# The layer is called with `padding_mask`, `cache` and `training`, if its `call` accepts them.
transitions = PartRegistry("ffn_layer")
# Makers of a layer [B, S, D] -> [B, S, D] that adds a position signal to the embeddings, for the
# hparam `pos`. A maker returns None for no signal. The layer is called with `training` and with the
# indices of the positions, int [S] or [B, S], or None for 0 .. S-1. (With a cache, these are the
# positions that are not in the cache.) A layer with the method `sample_position_ids(batch_size)`
# samples positions for the encoder and the decoder together. Such a layer is called with
# `position_ids` and, in the encoder, also with the `ids` of the source.
position_signals = PartRegistry("pos")


class Side(str):
    """The location of a part: "encoder", "decoder" or "language_model".

    A language model is a decoder without an encoder. The class is a str, so that a function that
    makes a part can compare the side with a name, as in `side == "decoder"`.

    Attributes:
        predicts: bool. Whether this side computes the predictions of the model. If True, each step
            of this side can have a loss. The value is True for decoders, and for encoders that no
            decoder attends to.
        pooling: str. The way in which `ClassLabelHead` computes the class of an example from the
            output. The value is None if every position has its own output.
    """

    predicts: bool
    pooling: str | None

    def __new__(cls, name: str, predicts: bool = False, pooling: str | None = None) -> Self:
        side = super().__new__(cls, name)
        side.predicts = predicts or name != "encoder"
        side.pooling = pooling
        return side
