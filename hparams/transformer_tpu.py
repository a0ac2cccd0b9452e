"""T2T's sets for the Transformer on TPUs, and those that they are made of; they run anywhere."""

from hparams import transformer
from hparams.registry import derived, register_derived
from hparams.transformer import fit_for_tpu

transformer_tpu = derived(transformer.transformer_base, fit_for_tpu)
# For problems whose examples are packed, which is all of them on a TPU.
transformer_packed_tpu = derived(transformer_tpu)
transformer_big_tpu = derived(transformer.transformer_big, fit_for_tpu)
# A head is as wide as the TPU's units of computation.
transformer_big_enfr_tpu = derived(transformer.transformer_big_enfr, fit_for_tpu, num_heads=8)
transformer_small_tpu = derived(transformer.transformer_small, fit_for_tpu)
transformer_tiny_tpu = derived(transformer.transformer_tiny, fit_for_tpu)
transformer_tpu_bf16_activation = derived(transformer_tpu, activation_dtype="bfloat16")
transformer_tpu_with_conv = derived(transformer_tpu, num_heads=4, ffn_layer="conv_relu_conv")

# --- Without what keeps from learning by heart ----------------------------------------------------

# No smoothing, no dropout, examples of any length.
transformer_clean = derived(
    transformer.transformer_base_v2,
    label_smoothing=0.0,
    layer_prepostprocess_dropout=0.0,
    attention_dropout=0.0,
    relu_dropout=0.0,
    max_length=0,
)
transformer_clean_big = derived(transformer_clean, hidden_size=1024, filter_size=4096)
transformer_clean_big_tpu = derived(transformer_clean_big, fit_for_tpu)

# --- Language models ------------------------------------------------------------------------------

transformer_lm_tpu_0 = derived(
    transformer_clean_big_tpu,
    num_heads=4,
    batch_size=4096,
    shared_embedding_and_softmax_weights=False,
    layer_prepostprocess_dropout=0.1,
)
transformer_lm_tpu_1 = derived(transformer_lm_tpu_0, hidden_size=2048, filter_size=8192)
# Long texts, 4,096 symbols.
transformer_wikitext103_l4k_v0 = derived(
    transformer.transformer_big,
    fit_for_tpu,
    batch_size=4096,
    max_length=4096,
    num_hidden_layers=8,
    num_heads=4,
    shared_embedding_and_softmax_weights=False,
    label_smoothing=0.0,
    layer_prepostprocess_dropout=0.2,
)

# --- Others ---------------------------------------------------------------------------------------

transformer_timeseries = derived(
    transformer.transformer_small, batch_size=256, learning_rate_warmup_steps=2000
)
transformer_timeseries_tpu = derived(transformer_timeseries, fit_for_tpu)
# Eight batches in one update.
transformer_base_multistep8 = derived(
    transformer.transformer_base, optimizer="multistep_adam", optimizer_multistep_accumulate_steps=8
)
transformer_test = derived(
    transformer.transformer_base, num_hidden_layers=2, hidden_size=16, filter_size=8, num_heads=2
)

register_derived(globals())
