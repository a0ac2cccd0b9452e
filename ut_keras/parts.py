"""What a model is assembled from, by the names that hparams give. Loads no TensorFlow.

    @parts.transitions.register("gated_linear")
    def gated_linear(hp, side):
        return GatedLinear(hp.filter_size, hp.hidden_size, name="gated_linear")

and `--hparams=ffn_layer=gated_linear` takes it. What registers is a maker: a function of the
hparams and of a `Side` that returns a new layer. What it takes besides is said behind the name,
`--hparams="ffn_layer='sigma_moe(num_experts=16, k=4)'"`. The parts that come with ut_keras register
in the same way, each beside its layer.
"""

import ast
import functools
import importlib
import inspect
import pkgutil
from typing import Any, Self

from ut_keras import errors, registry


class PartRegistry(registry.Registry):
    """Makers by name, or by "name(argument=value, ...)".

    A name that is not here is looked for in all of `ut_keras.layers`, which loads TensorFlow.
    """

    def get(self, name: str) -> Any:
        """See `Registry.get`.

        Raises:
            UserError: if the maker does not take such arguments.
        """
        word, given = _parse(name)
        maker = super().get(word)
        signature = inspect.signature(maker)
        takes = list(signature.parameters.values())[2:]
        any_kind = (inspect.Parameter.empty, None)
        kinds = {of.name: type(of.default) for of in takes if of.default not in any_kind}
        for argument in given:
            if kinds.get(argument) is float and type(given[argument]) is int:
                given[argument] = float(given[argument])
        try:
            signature.bind("hp", "side", **given)
            fits = all(type(given[of]) is kind for of, kind in kinds.items() if of in given)
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
    """The name and what is given to its maker: ("sigma_moe", {"k": 4})."""
    try:
        call: Any = ast.parse(str(name), mode="eval").body
        given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        return (name, {}) if call.args or None in given else (call.func.id, given)
    except (SyntaxError, ValueError, AttributeError):
        return name, {}  # as it was typed


@functools.cache
def load_all() -> None:
    """Has every part of ut_keras register itself."""
    layers = importlib.import_module("ut_keras.layers")
    for module in pkgutil.walk_packages(layers.__path__, f"{layers.__name__}."):
        importlib.import_module(module.name)


# A `layers.depth.Depth`, by `recurrence_type`.
recurrences = PartRegistry("recurrence_type")
# When a position is done in a recurrence of the type "act": a `layers.halting.Rule`, by `act_type`.
haltings = PartRegistry("act_type")
# What `layers.attention.MultiHeadAttention` is, by `self_attention_type`.
self_attentions = PartRegistry("self_attention_type")
# [B, S, D] -> [B, S, D], called with `padding_mask`, `cache` and `training`, by `ffn_layer` or
# `transformer_ffn_type`.
transitions = PartRegistry("ffn_layer")
# Added to the embeddings, [B, S, D] -> [B, S, D]; or None. By `pos`. Called with which positions
# they are, int [S] or [B, S], None for 0 .. S-1 (a cache asks for those that it lacks), and with
# `training`. One that has `draw_places(rows)` draws for both sides together: it is called with
# `places` and, of a source, with its `ids`.
position_signals = PartRegistry("pos")


class Side(str):
    """Where a part is: "encoder", "decoder" or "language_model", a decoder without an encoder.

    Attributes:
        answers: bool. Whether nothing but the loss looks at the output, so that each step of it can
            have one: of a decoder, and of an encoder that no decoder attends to.
        pooling: str. How the class of a row is read from the output, see `ClassLabelHead`; None
            where every position has an answer.
    """

    answers: bool
    pooling: str | None

    def __new__(cls, name: str, answers: bool = False, pooling: str | None = None) -> Self:
        side = super().__new__(cls, name)
        side.answers = answers or name != "encoder"
        side.pooling = pooling
        return side
