"""T2T's sets for the (Adaptive) Universal Transformer: all of its universal_transformer.py."""

from ut_keras.hparam import TransformerHParams, UniversalTransformerHParams
from ut_keras.hparams import transformer
from ut_keras.hparams.registry import derived, register_derived


def make_universal(hp: TransformerHParams) -> UniversalTransformerHParams:
    """The Universal Transformer of a Transformer's size: as many steps as that has layers."""
    values = hp.to_dict()
    del values["pos"], values["daisy_chain_variables"]  # the two defaults that differ
    return UniversalTransformerHParams(
        **values, num_rec_steps=hp.num_hidden_layers, act_max_steps=2 * hp.num_hidden_layers
    )


# --- Sizes ----------------------------------------------------------------------------------------

universal_transformer_base = derived(
    transformer.transformer_base,
    make_universal,
    hidden_size=1024,
    filter_size=4096,
    num_heads=16,
    layer_prepostprocess_dropout=0.3,
)
universal_transformer_big = derived(universal_transformer_base, hidden_size=2048, filter_size=8192)
universal_transformer_small = derived(transformer.transformer_base, make_universal)
universal_transformer_tiny = derived(transformer.transformer_tiny, make_universal, num_rec_steps=8)
universal_transformer_teeny = derived(
    transformer.transformer_teeny, make_universal, num_rec_steps=10
)
universal_transformer_tall = derived(universal_transformer_small, num_rec_steps=16)
universal_transformer_base_tpu = derived(
    universal_transformer_base, transformer.fit_for_tpu, add_step_timing_signal=False
)
universal_transformer_base_fp16 = derived(universal_transformer_small, activation_dtype="float16")

# --- Adaptive computation time --------------------------------------------------------------------

adaptive_universal_transformer_base = derived(universal_transformer_base, recurrence_type="act")
adaptive_universal_transformer_small = derived(universal_transformer_small, recurrence_type="act")
adaptive_universal_transformer_tiny = derived(universal_transformer_tiny, recurrence_type="act")
adaptive_universal_transformer_base_tpu = derived(
    adaptive_universal_transformer_base, transformer.fit_for_tpu, add_step_timing_signal=False
)
adaptive_universal_transformer_global_base = derived(
    adaptive_universal_transformer_base, act_type="global"
)
adaptive_universal_transformer_global_base_tpu = derived(
    adaptive_universal_transformer_global_base,
    transformer.fit_for_tpu,
    add_step_timing_signal=False,
)
# num_hidden_layers is T2T's and has no effect.
adaptive_universal_transformer_tall = derived(
    adaptive_universal_transformer_small, num_hidden_layers=16, batch_size=1024, act_max_steps=24
)
adaptive_universal_transformer_tall_actlossw0 = derived(
    adaptive_universal_transformer_tall, act_loss_weight=0.0
)
adaptive_universal_transformer_tall_actlossw001 = derived(
    adaptive_universal_transformer_tall, act_loss_weight=0.001
)
adaptive_universal_transformer_base_dropout03 = derived(
    adaptive_universal_transformer_base,
    layer_prepostprocess_dropout=0.3,
    attention_dropout=0.3,
    relu_dropout=0.3,
)
adaptive_universal_transformer_base_dropout05 = derived(
    adaptive_universal_transformer_base,
    layer_prepostprocess_dropout=0.5,
    attention_dropout=0.5,
    relu_dropout=0.5,
)
# Several layers in each step, and layers of their own before and after.
adaptive_universal_transformer_multilayer_tpu = derived(
    adaptive_universal_transformer_base_tpu,
    num_inrecurrence_layers=2,
    mix_with_transformer="before_ut,after_ut",
    num_mixedin_layers=1,
    transformer_ffn_type="sepconv",
)
# The same with hard attention to 8 positions, and relative positions.
adaptive_universal_transformer_multilayer_hard = derived(
    adaptive_universal_transformer_multilayer_tpu,
    batch_size=256,
    hard_attention_k=8,
    add_step_timing_signal=True,
    self_attention_type="dot_product_relative_v2",
    max_relative_position=256,
)

# --- How one step becomes the next ----------------------------------------------------------------

universal_transformer_skip_base = derived(universal_transformer_base, recurrence_type="skip")
universal_transformer_highway_base = derived(universal_transformer_base, recurrence_type="highway")
universal_transformer_small_dropconnect = derived(
    universal_transformer_small, gate_ffn_layer="dense_dropconnect", dropconnect_dropout=0.5
)
# Attention over the states of earlier steps.
universal_transformer_dwa_base = derived(universal_transformer_base, recurrence_type="dwa")
# An LSTM counts the steps itself.
universal_transformer_lstm_base = derived(
    universal_transformer_base, recurrence_type="lstm", add_step_timing_signal=False
)
universal_transformer_lstm_tall = derived(
    universal_transformer_tall, recurrence_type="lstm", add_step_timing_signal=False
)
# A GRU counts the steps itself.
universal_transformer_gru_base = derived(
    universal_transformer_base, recurrence_type="gru", add_step_timing_signal=False
)

# --- Timing signals -------------------------------------------------------------------------------

universal_transformer_position_random_timing_tiny = derived(
    universal_transformer_tiny, position_start_index="random"
)
universal_transformer_position_step_timing_tiny = derived(
    universal_transformer_tiny, position_start_index="step"
)
universal_transformer_step_sinusoid_timing_tiny = derived(
    universal_transformer_tiny, step_timing_signal_type="sinusoid"
)
adaptive_universal_transformer_position_random_timing_tiny = derived(
    adaptive_universal_transformer_tiny, position_start_index="random"
)
adaptive_universal_transformer_concat_tiny = derived(
    adaptive_universal_transformer_tiny, add_or_concat_timing_signal="concat"
)
adaptive_universal_transformer_with_sru_base = derived(
    adaptive_universal_transformer_base, add_sru=True
)

# --- Ordinary layers before or after the recurrence -----------------------------------------------

universal_transformer_mix_before_ut_base = derived(
    universal_transformer_base, mix_with_transformer="before_ut"
)
universal_transformer_mix_after_ut_base = derived(
    universal_transformer_base, mix_with_transformer="after_ut"
)
adaptive_universal_transformer_mix_before_ut_base = derived(
    adaptive_universal_transformer_base, mix_with_transformer="before_ut"
)
adaptive_universal_transformer_mix_after_ut_base = derived(
    adaptive_universal_transformer_base, mix_with_transformer="after_ut"
)

# --- Separable convolutions for the transition ----------------------------------------------------

universal_transformer_sepconv_big = derived(
    universal_transformer_big, transformer_ffn_type="sepconv"
)
universal_transformer_sepconv_base = derived(
    universal_transformer_base, transformer_ffn_type="sepconv"
)
universal_transformer_sepconv_tiny = derived(
    universal_transformer_tiny, transformer_ffn_type="sepconv"
)
adaptive_universal_transformer_sepconv_tiny = derived(
    adaptive_universal_transformer_tiny, transformer_ffn_type="sepconv"
)

register_derived(globals())
