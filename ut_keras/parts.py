"""What a model is assembled from, by the names that hparams give. Loads no TensorFlow.

    @parts.transitions.register("gated_linear")
    def gated_linear(hp, side):
        return GatedLinear(hp.filter_size, hp.hidden_size, name="gated_linear")

and `--hparams=ffn_layer=gated_linear` takes it. What registers is a maker: a function of the
hparams and of a `Side` that returns a new layer. The parts that come with ut_keras register in the
same way, each beside its layer.
"""

from typing import Self

from ut_keras import registry

# A `layers.depth.Depth`, by `recurrence_type`.
recurrences = registry.Registry("recurrence_type")
# When a position is done in a recurrence of the type "act": a `layers.halting.Rule`, by `act_type`.
haltings = registry.Registry("act_type")
# What `layers.attention.MultiHeadAttention` is, by `self_attention_type`.
self_attentions = registry.Registry("self_attention_type")
# [B, S, D] -> [B, S, D], called with `padding_mask`, `cache` and `training`, by `ffn_layer`.
transitions = registry.Registry("ffn_layer")
# Added to the embeddings, [B, S, D] -> [B, S, D]; or None. By `pos`.
position_signals = registry.Registry("pos")


class Side(str):
    """Where a part is: "encoder", "decoder" or "language_model", a decoder without an encoder.

    Attributes:
        answers: bool. Whether nothing but the loss looks at the output, so that each step of it can
            have one: of a decoder, and of an encoder that no decoder attends to.
        pooling: str. How the class of a row is read from the output, see `layers.pooling`; None
            where every position has an answer.
    """

    answers: bool
    pooling: str | None

    def __new__(cls, name: str, answers: bool = False, pooling: str | None = None) -> Self:
        side = super().__new__(cls, name)
        side.answers = answers or name != "encoder"
        side.pooling = pooling
        return side
