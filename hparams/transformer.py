"""T2T's hparams sets for the Transformer.

They include the variations in table 3 of Vaswani et al. 2017.
"""

from dataclasses import replace
from typing import TypeVar

from ut_keras.hparam_schema import TransformerHParams
from ut_keras.hparams.registry import derived, register_derived

T = TypeVar("T", bound=TransformerHParams)
# Fields with which the norm comes after each layer, as in the paper.
POST_NORM = {"layer_preprocess_sequence": "none", "layer_postprocess_sequence": "dan"}


def use_relative_positions(hp: TransformerHParams) -> TransformerHParams:
    """Return `hp` with relative positions in attention instead of a position signal."""
    return replace(
        hp, pos=None, self_attention_type="dot_product_relative", max_relative_position=20
    )


def dropout(rate: float) -> dict[str, float]:
    """Return a dict that sets all dropout fields of a Transformer to one rate."""
    fields = ("layer_prepostprocess_dropout", "attention_dropout", "relu_dropout")
    return dict.fromkeys(fields, rate)


def fit_for_tpu(hp: T) -> T:
    """Return `hp` with T2T's changes for TPUs.

    The changes are small batches of short examples, Adafactor, and shared dropout masks.
    """
    return replace(
        hp,
        optimizer="Adafactor",
        learning_rate_schedule="rsqrt_decay",
        learning_rate_warmup_steps=10000,
        symbol_modality_num_shards=1,
        max_length=64,
        batch_size=min(hp.batch_size, 2048),
        attention_dropout_broadcast_dims="0,1",  # the axes of the batch and the heads
        relu_dropout_broadcast_dims="1",  # the axis of the length
        layer_prepostprocess_dropout_broadcast_dims="1",
    )


# --- Base -----------------------------------------------------------------------------------------

# This set has the defaults of `TransformerHParams`.
transformer_base = derived(TransformerHParams)
transformer_base_v3 = derived(transformer_base)
# This set is an older set of T2T with the "legacy" learning rate schedule.
transformer_base_v2 = derived(
    transformer_base_v3,
    optimizer_adam_beta2=0.98,
    learning_rate_schedule="legacy",
    learning_rate_constant=1.0,
)
# This set has the values of the paper (Vaswani et al. 2017).
transformer_base_v1 = derived(
    transformer_base_v2,
    **POST_NORM,
    attention_dropout=0.0,
    relu_dropout=0.0,
    learning_rate=0.1,
    learning_rate_warmup_steps=4000,
)
# With these fields, the decoder reads the inputs before the targets.
_prepend = {"prepend_mode": "prepend_inputs_masked_attention", "max_length": 0}
transformer_prepend_v2 = derived(transformer_base_v2, **_prepend)
transformer_prepend_v1 = derived(transformer_base_v1, **_prepend)
transformer_prepend = derived(transformer_prepend_v2)
transformer_base_single_gpu = derived(
    transformer_base,
    batch_size=1024,
    learning_rate_schedule="constant*linear_warmup*rsqrt_decay",
    learning_rate_constant=0.1,
    learning_rate_warmup_steps=16000,
)

# --- Small ----------------------------------------------------------------------------------------

transformer_teeny = derived(transformer_base, hidden_size=128, filter_size=128, num_heads=2)
transformer_tiny = derived(
    transformer_base, num_hidden_layers=2, hidden_size=128, filter_size=512, num_heads=4
)
transformer_small = derived(
    transformer_base, num_hidden_layers=2, hidden_size=256, filter_size=1024, num_heads=4
)

# --- Big ------------------------------------------------------------------------------------------

transformer_big = derived(
    transformer_base,
    hidden_size=1024,
    filter_size=4096,
    num_heads=16,
    batch_size=2048,
    layer_prepostprocess_dropout=0.3,
)
transformer_big_single_gpu = derived(
    transformer_big, layer_prepostprocess_dropout=0.1, learning_rate_warmup_steps=16000
)
transformer_big_dr1 = derived(transformer_base, hidden_size=1024, filter_size=4096, num_heads=16)
transformer_big_dr2 = derived(transformer_big_dr1, layer_prepostprocess_dropout=0.2)
transformer_big_enfr = derived(
    transformer_big_dr1, shared_embedding_and_softmax_weights=False, filter_size=8192
)

# --- Attention over parameters in place of the feed-forward layer ---------------------------------

transformer_parameter_attention_a = derived(
    transformer_base, ffn_layer="parameter_attention", filter_size=1536
)
transformer_parameter_attention_b = derived(
    transformer_base,
    ffn_layer="parameter_attention",
    filter_size=512,
    parameter_attention_key_channels=1024,
    parameter_attention_value_channels=1024,
    num_heads=16,
)

# --- Parsing --------------------------------------------------------------------------------------

# This set is for training with WSJ data only.
transformer_parsing_base = derived(
    transformer_base,
    attention_dropout=0.2,
    layer_prepostprocess_dropout=0.2,
    max_length=512,
    learning_rate_warmup_steps=16000,
    hidden_size=1024,
    learning_rate=0.05,
    shared_embedding_and_softmax_weights=False,
)
# This set is for semi-supervised training with WSJ data.
transformer_parsing_big = derived(
    transformer_big,
    max_length=512,
    learning_rate_warmup_steps=4000,
    layer_prepostprocess_dropout=0.1,
    learning_rate=0.05,
)
# This set is for parsing and tagging of Icelandic text.
transformer_parsing_ice = derived(
    transformer_base_single_gpu, batch_size=4096, shared_embedding_and_softmax_weights=False
)

# --- Relative positions ---------------------------------------------------------------------------

transformer_relative = derived(transformer_base, use_relative_positions)
transformer_relative_tiny = derived(transformer_tiny, use_relative_positions)
transformer_relative_big = derived(transformer_big, use_relative_positions)

# --- Table 3 --------------------------------------------------------------------------------------

# Sets of row A, with other numbers of heads.
transformer_h1 = derived(transformer_base, num_heads=1)
transformer_h4 = derived(transformer_base, num_heads=4)
transformer_h16 = derived(transformer_base, num_heads=16)
transformer_h32 = derived(transformer_base, num_heads=32)
# Sets of row B, with other key sizes.
transformer_k128 = derived(transformer_base, attention_key_channels=128)
transformer_k256 = derived(transformer_base, attention_key_channels=256)
# Sets of row C, with another number of layers, hidden size or filter size.
transformer_l2 = derived(transformer_base, num_hidden_layers=2)
transformer_l4 = derived(transformer_base, num_hidden_layers=4)
transformer_l8 = derived(transformer_base, num_hidden_layers=8)
transformer_l10 = derived(transformer_base, num_hidden_layers=10)
transformer_hs256 = derived(transformer_base, hidden_size=256)
transformer_hs1024 = derived(transformer_base, hidden_size=1024)
transformer_ff1024 = derived(transformer_base, filter_size=1024)
transformer_ff4096 = derived(transformer_base, filter_size=4096)
# Sets of row D, with other dropout or label smoothing.
transformer_dr0 = derived(transformer_base, layer_prepostprocess_dropout=0.0)
transformer_dr2 = derived(transformer_base, layer_prepostprocess_dropout=0.2)
transformer_ls0 = derived(transformer_base, label_smoothing=0.0)
transformer_ls2 = derived(transformer_base, label_smoothing=0.2)

# --- For TPUs; these sets run on any device -------------------------------------------------------

transformer_tpu = derived(transformer_base, fit_for_tpu)
# This set is for problems with packed examples, which T2T uses on TPUs.
transformer_packed_tpu = derived(transformer_tpu)
transformer_big_tpu = derived(transformer_big, fit_for_tpu)
# Each head is as wide as the matrix unit of a TPU.
transformer_big_enfr_tpu = derived(transformer_big_enfr, fit_for_tpu, num_heads=8)
transformer_small_tpu = derived(transformer_small, fit_for_tpu)
transformer_tiny_tpu = derived(transformer_tiny, fit_for_tpu)
transformer_tpu_bf16_activation = derived(transformer_tpu, activation_dtype="bfloat16")
transformer_tpu_with_conv = derived(transformer_tpu, num_heads=4, ffn_layer="conv_relu_conv")

# --- Without regularization -----------------------------------------------------------------------

# This set has no label smoothing, no dropout and no limit for the length of examples.
transformer_clean = derived(
    transformer_base_v2,
    label_smoothing=0.0,
    **dropout(0.0),
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
# This set is for long texts of 4,096 tokens.
transformer_wikitext103_l4k_v0 = derived(
    transformer_big,
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

transformer_timeseries = derived(transformer_small, batch_size=256, learning_rate_warmup_steps=2000)
transformer_timeseries_tpu = derived(transformer_timeseries, fit_for_tpu)
# With this set, each update uses eight batches.
transformer_base_multistep8 = derived(
    transformer_base, optimizer="multistep_adam", optimizer_multistep_accumulate_steps=8
)
transformer_test = derived(
    transformer_base, num_hidden_layers=2, hidden_size=16, filter_size=8, num_heads=2
)

register_derived(globals())
