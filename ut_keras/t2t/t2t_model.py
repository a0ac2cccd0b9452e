"""T2T's base class of models, and those of its models that are here.

A class with methods of its own is a model of TensorFlow 1 and is refused by its name; one without
is one of ours under another name.
"""


class T2TModel:
    """What models of T2T derive from."""

    OURS: str | None = None


class Transformer(T2TModel):
    OURS = "transformer"


class TransformerEncoder(T2TModel):
    OURS = "transformer_encoder"


class UniversalTransformer(Transformer):
    OURS = "universal_transformer"


class UniversalTransformerEncoder(Transformer):
    OURS = "universal_transformer_encoder"


class LSTMSeq2seq(T2TModel):
    OURS = "lstm_seq2seq"


class LSTMSeq2seqAttention(T2TModel):
    OURS = "lstm_seq2seq_attention"


def ours(model_class: type) -> str | None:
    """The name of our model that a class is, with nothing of its own; None if it is another."""
    for cls in model_class.__mro__:
        if cls.__module__ == __name__:
            return getattr(cls, "OURS", None)
        own = {name for name in vars(cls) if not name.startswith("__")} | (
            {"__init__"} & vars(cls).keys()
        )
        if own:
            return None
    return None
