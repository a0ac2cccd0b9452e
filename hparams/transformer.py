"""T2T's sets for the Transformer, those of daily use; `transformer_table3` has the variations."""

from dataclasses import replace
from typing import TypeVar

from hparams.registry import register
from ut_keras.hparam import TransformerHParams

T = TypeVar("T", bound=TransformerHParams)


def use_relative_positions(hp: TransformerHParams) -> TransformerHParams:
    """Attention knows how far apart two positions are, in place of a position signal."""
    return replace(
        hp, pos=None, self_attention_type="dot_product_relative", max_relative_position=20
    )


def fit_for_tpu(hp: T) -> T:
    """What T2T changes for TPUs: short, small batches, Adafactor, dropout masks that are shared."""
    return replace(
        hp,
        optimizer="Adafactor",
        learning_rate_schedule="rsqrt_decay",
        learning_rate_warmup_steps=10000,
        symbol_modality_num_shards=1,
        max_length=64,
        batch_size=min(hp.batch_size, 2048),
        attention_dropout_broadcast_dims="0,1",  # batch, heads
        relu_dropout_broadcast_dims="1",  # length
        layer_prepostprocess_dropout_broadcast_dims="1",
    )


# --- Base -----------------------------------------------------------------------------------------


@register("transformer_base")
def transformer_base() -> TransformerHParams:
    """The defaults of `TransformerHParams`."""
    return TransformerHParams()


@register("transformer_base_v3")
def transformer_base_v3() -> TransformerHParams:
    return transformer_base()


@register("transformer_base_v2")
def transformer_base_v2() -> TransformerHParams:
    """Before the learning rate was a product of factors."""
    return replace(
        transformer_base_v3(),
        optimizer_adam_beta2=0.98,
        learning_rate_schedule="legacy",
        learning_rate_constant=1.0,
    )


@register("transformer_base_v1")
def transformer_base_v1() -> TransformerHParams:
    """As published: the norm comes after each layer."""
    return replace(
        transformer_base_v2(),
        layer_preprocess_sequence="none",
        layer_postprocess_sequence="dan",
        attention_dropout=0.0,
        relu_dropout=0.0,
        learning_rate=0.1,
        learning_rate_warmup_steps=4000,
    )


@register("transformer_base_single_gpu")
def transformer_base_single_gpu() -> TransformerHParams:
    return replace(
        transformer_base(),
        batch_size=1024,
        learning_rate_schedule="constant*linear_warmup*rsqrt_decay",
        learning_rate_constant=0.1,
        learning_rate_warmup_steps=16000,
    )


# --- Small ----------------------------------------------------------------------------------------


@register("transformer_teeny")
def transformer_teeny() -> TransformerHParams:
    return replace(transformer_base(), hidden_size=128, filter_size=128, num_heads=2)


@register("transformer_tiny")
def transformer_tiny() -> TransformerHParams:
    return replace(
        transformer_base(),
        num_hidden_layers=2,
        hidden_size=128,
        filter_size=512,
        num_heads=4,
    )


@register("transformer_small")
def transformer_small() -> TransformerHParams:
    return replace(
        transformer_base(),
        num_hidden_layers=2,
        hidden_size=256,
        filter_size=1024,
        num_heads=4,
    )


# --- Big ------------------------------------------------------------------------------------------


@register("transformer_big")
def transformer_big() -> TransformerHParams:
    return replace(
        transformer_base(),
        hidden_size=1024,
        filter_size=4096,
        num_heads=16,
        batch_size=2048,
        layer_prepostprocess_dropout=0.3,
    )


@register("transformer_big_single_gpu")
def transformer_big_single_gpu() -> TransformerHParams:
    return replace(
        transformer_big(),
        layer_prepostprocess_dropout=0.1,
        learning_rate_warmup_steps=16000,
    )


@register("transformer_big_dr1")
def transformer_big_dr1() -> TransformerHParams:
    return replace(transformer_base(), hidden_size=1024, filter_size=4096, num_heads=16)


@register("transformer_big_dr2")
def transformer_big_dr2() -> TransformerHParams:
    return replace(transformer_big_dr1(), layer_prepostprocess_dropout=0.2)


@register("transformer_big_enfr")
def transformer_big_enfr() -> TransformerHParams:
    return replace(
        transformer_big_dr1(),
        shared_embedding_and_softmax_weights=False,
        filter_size=8192,
    )


# --- Attention over parameters in place of the feed-forward layer ---------------------------------


@register("transformer_parameter_attention_a")
def transformer_parameter_attention_a() -> TransformerHParams:
    return replace(transformer_base(), ffn_layer="parameter_attention", filter_size=1536)


@register("transformer_parameter_attention_b")
def transformer_parameter_attention_b() -> TransformerHParams:
    return replace(
        transformer_base(),
        ffn_layer="parameter_attention",
        filter_size=512,
        parameter_attention_key_channels=1024,
        parameter_attention_value_channels=1024,
        num_heads=16,
    )


# --- Parsing --------------------------------------------------------------------------------------


@register("transformer_parsing_base")
def transformer_parsing_base() -> TransformerHParams:
    """WSJ only."""
    return replace(
        transformer_base(),
        attention_dropout=0.2,
        layer_prepostprocess_dropout=0.2,
        max_length=512,
        learning_rate_warmup_steps=16000,
        hidden_size=1024,
        learning_rate=0.05,
        shared_embedding_and_softmax_weights=False,
    )


@register("transformer_parsing_big")
def transformer_parsing_big() -> TransformerHParams:
    """WSJ, semi-supervised."""
    return replace(
        transformer_big(),
        max_length=512,
        learning_rate_warmup_steps=4000,
        layer_prepostprocess_dropout=0.1,
        learning_rate=0.05,
    )


@register("transformer_parsing_ice")
def transformer_parsing_ice() -> TransformerHParams:
    """Parsing and tagging Icelandic text."""
    return replace(
        transformer_base_single_gpu(),
        batch_size=4096,
        shared_embedding_and_softmax_weights=False,
    )


# --- Relative positions ---------------------------------------------------------------------------


@register("transformer_relative")
def transformer_relative() -> TransformerHParams:
    return use_relative_positions(transformer_base())


@register("transformer_relative_tiny")
def transformer_relative_tiny() -> TransformerHParams:
    return use_relative_positions(transformer_tiny())


@register("transformer_relative_big")
def transformer_relative_big() -> TransformerHParams:
    return use_relative_positions(transformer_big())
