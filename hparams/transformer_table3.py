"""T2T's sets for the variations of the Transformer in table 3 of Vaswani et al. 2017."""

from dataclasses import replace

from hparams.registry import register
from hparams.transformer import transformer_base
from ut_keras.hparam import TransformerHParams

# --- Table 3, row A: heads ------------------------------------------------------------------------


@register("transformer_h1")
def transformer_h1() -> TransformerHParams:
    return replace(transformer_base(), num_heads=1)


@register("transformer_h4")
def transformer_h4() -> TransformerHParams:
    return replace(transformer_base(), num_heads=4)


@register("transformer_h16")
def transformer_h16() -> TransformerHParams:
    return replace(transformer_base(), num_heads=16)


@register("transformer_h32")
def transformer_h32() -> TransformerHParams:
    return replace(transformer_base(), num_heads=32)


# --- Table 3, row B: size of the keys -------------------------------------------------------------


@register("transformer_k128")
def transformer_k128() -> TransformerHParams:
    return replace(transformer_base(), attention_key_channels=128)


@register("transformer_k256")
def transformer_k256() -> TransformerHParams:
    return replace(transformer_base(), attention_key_channels=256)


# --- Table 3, row C: layers, width, filter --------------------------------------------------------


@register("transformer_l2")
def transformer_l2() -> TransformerHParams:
    return replace(transformer_base(), num_hidden_layers=2)


@register("transformer_l4")
def transformer_l4() -> TransformerHParams:
    return replace(transformer_base(), num_hidden_layers=4)


@register("transformer_l8")
def transformer_l8() -> TransformerHParams:
    return replace(transformer_base(), num_hidden_layers=8)


@register("transformer_l10")
def transformer_l10() -> TransformerHParams:
    return replace(transformer_base(), num_hidden_layers=10)


@register("transformer_hs256")
def transformer_hs256() -> TransformerHParams:
    return replace(transformer_base(), hidden_size=256)


@register("transformer_hs1024")
def transformer_hs1024() -> TransformerHParams:
    return replace(transformer_base(), hidden_size=1024)


@register("transformer_ff1024")
def transformer_ff1024() -> TransformerHParams:
    return replace(transformer_base(), filter_size=1024)


@register("transformer_ff4096")
def transformer_ff4096() -> TransformerHParams:
    return replace(transformer_base(), filter_size=4096)


# --- Table 3, row D: dropout, label smoothing -----------------------------------------------------


@register("transformer_dr0")
def transformer_dr0() -> TransformerHParams:
    return replace(transformer_base(), layer_prepostprocess_dropout=0.0)


@register("transformer_dr2")
def transformer_dr2() -> TransformerHParams:
    return replace(transformer_base(), layer_prepostprocess_dropout=0.2)


@register("transformer_ls0")
def transformer_ls0() -> TransformerHParams:
    return replace(transformer_base(), label_smoothing=0.0)


@register("transformer_ls2")
def transformer_ls2() -> TransformerHParams:
    return replace(transformer_base(), label_smoothing=0.2)
