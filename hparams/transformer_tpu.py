"""T2T's sets for the Transformer on TPUs, and those that they are made of; they run anywhere."""

from dataclasses import replace

from hparams import transformer
from hparams.registry import register
from hparams.transformer import fit_for_tpu
from ut_keras.hparam import TransformerHParams


@register("transformer_tpu")
def transformer_tpu() -> TransformerHParams:
    return fit_for_tpu(transformer.transformer_base())


@register("transformer_packed_tpu")
def transformer_packed_tpu() -> TransformerHParams:
    """For problems whose examples are packed, which is all of them on a TPU."""
    return transformer_tpu()


@register("transformer_big_tpu")
def transformer_big_tpu() -> TransformerHParams:
    return fit_for_tpu(transformer.transformer_big())


@register("transformer_big_enfr_tpu")
def transformer_big_enfr_tpu() -> TransformerHParams:
    """A head is as wide as the TPU's units of computation."""
    return replace(fit_for_tpu(transformer.transformer_big_enfr()), num_heads=8)


@register("transformer_small_tpu")
def transformer_small_tpu() -> TransformerHParams:
    return fit_for_tpu(transformer.transformer_small())


@register("transformer_tiny_tpu")
def transformer_tiny_tpu() -> TransformerHParams:
    return fit_for_tpu(transformer.transformer_tiny())


@register("transformer_tpu_bf16_activation")
def transformer_tpu_bf16_activation() -> TransformerHParams:
    return replace(transformer_tpu(), activation_dtype="bfloat16")


@register("transformer_tpu_with_conv")
def transformer_tpu_with_conv() -> TransformerHParams:
    return replace(transformer_tpu(), num_heads=4, ffn_layer="conv_relu_conv")


# --- Without what keeps from learning by heart ----------------------------------------------------


@register("transformer_clean")
def transformer_clean() -> TransformerHParams:
    """No smoothing, no dropout, examples of any length."""
    return replace(
        transformer.transformer_base_v2(),
        label_smoothing=0.0,
        layer_prepostprocess_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        max_length=0,
    )


@register("transformer_clean_big")
def transformer_clean_big() -> TransformerHParams:
    return replace(transformer_clean(), hidden_size=1024, filter_size=4096)


@register("transformer_clean_big_tpu")
def transformer_clean_big_tpu() -> TransformerHParams:
    return fit_for_tpu(transformer_clean_big())


# --- Language models ------------------------------------------------------------------------------


@register("transformer_lm_tpu_0")
def transformer_lm_tpu_0() -> TransformerHParams:
    return replace(
        transformer_clean_big_tpu(),
        num_heads=4,
        batch_size=4096,
        shared_embedding_and_softmax_weights=False,
        layer_prepostprocess_dropout=0.1,
    )


@register("transformer_lm_tpu_1")
def transformer_lm_tpu_1() -> TransformerHParams:
    return replace(transformer_lm_tpu_0(), hidden_size=2048, filter_size=8192)


@register("transformer_wikitext103_l4k_v0")
def transformer_wikitext103_l4k_v0() -> TransformerHParams:
    """Long texts, 4,096 symbols."""
    return replace(
        fit_for_tpu(transformer.transformer_big()),
        batch_size=4096,
        max_length=4096,
        num_hidden_layers=8,
        num_heads=4,
        shared_embedding_and_softmax_weights=False,
        label_smoothing=0.0,
        layer_prepostprocess_dropout=0.2,
    )


# --- Others ---------------------------------------------------------------------------------------


@register("transformer_timeseries")
def transformer_timeseries() -> TransformerHParams:
    return replace(transformer.transformer_small(), batch_size=256, learning_rate_warmup_steps=2000)


@register("transformer_timeseries_tpu")
def transformer_timeseries_tpu() -> TransformerHParams:
    return fit_for_tpu(transformer_timeseries())


@register("transformer_base_multistep8")
def transformer_base_multistep8() -> TransformerHParams:
    """Eight batches in one update."""
    return replace(
        transformer.transformer_base(),
        optimizer="multistep_adam",
        optimizer_multistep_accumulate_steps=8,
    )


@register("transformer_test")
def transformer_test() -> TransformerHParams:
    return replace(
        transformer.transformer_base(),
        num_hidden_layers=2,
        hidden_size=16,
        filter_size=8,
        num_heads=2,
    )
