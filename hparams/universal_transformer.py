"""T2T's hparams sets for the (Adaptive) Universal Transformer.

These are all sets of T2T's universal_transformer.py.
"""

from ut_keras.hparam_schema import TransformerHParams, UniversalTransformerHParams
from ut_keras.hparams import transformer
from ut_keras.hparams.registry import derived, register_derived
from ut_keras.hparams.transformer import dropout, fit_for_tpu


def make_universal(hp: TransformerHParams) -> UniversalTransformerHParams:
    """Return the hparams of a Universal Transformer of the same size as `hp`.

    The Universal Transformer has as many steps as `hp` has layers.
    """
    values = hp.to_dict()
    # `UniversalTransformerHParams` has other defaults for these two hparams.
    del values["pos"], values["daisy_chain_variables"]
    return UniversalTransformerHParams(
        **values, num_rec_steps=hp.num_hidden_layers, act_max_steps=2 * hp.num_hidden_layers
    )


# --- Sizes ----------------------------------------------------------------------------------------

universal_transformer_base = _base = derived(
    transformer.transformer_base,
    make_universal,
    hidden_size=1024,
    filter_size=4096,
    num_heads=16,
    layer_prepostprocess_dropout=0.3,
)
universal_transformer_big = _big = derived(_base, hidden_size=2048, filter_size=8192)
universal_transformer_small = _small = derived(transformer.transformer_base, make_universal)
universal_transformer_tiny = _tiny = derived(
    transformer.transformer_tiny, make_universal, num_rec_steps=8
)
universal_transformer_teeny = derived(
    transformer.transformer_teeny, make_universal, num_rec_steps=10
)
universal_transformer_tall = _tall = derived(_small, num_rec_steps=16)
adaptive_universal_transformer_base = _adaptive_base = derived(_base, recurrence_type="act")
adaptive_universal_transformer_small = derived(_small, recurrence_type="act")
adaptive_universal_transformer_tiny = _adaptive_tiny = derived(_tiny, recurrence_type="act")

# With this field, the model has no timing signal for the step.
_NO_STEP_SIGNAL = {"add_step_timing_signal": False}

universal_transformer_base_tpu = derived(_base, fit_for_tpu, **_NO_STEP_SIGNAL)
universal_transformer_base_fp16 = derived(_small, activation_dtype="float16")

# --- Adaptive computation time --------------------------------------------------------------------

adaptive_universal_transformer_base_tpu = derived(_adaptive_base, fit_for_tpu, **_NO_STEP_SIGNAL)
adaptive_universal_transformer_global_base = derived(_adaptive_base, act_type="global")
adaptive_universal_transformer_global_base_tpu = derived(
    adaptive_universal_transformer_global_base, fit_for_tpu, **_NO_STEP_SIGNAL
)
# T2T also sets num_hidden_layers, which has no effect.
adaptive_universal_transformer_tall = derived(
    adaptive_universal_transformer_small, num_hidden_layers=16, batch_size=1024, act_max_steps=24
)
adaptive_universal_transformer_tall_actlossw0 = derived(
    adaptive_universal_transformer_tall, act_loss_weight=0.0
)
adaptive_universal_transformer_tall_actlossw001 = derived(
    adaptive_universal_transformer_tall, act_loss_weight=0.001
)
adaptive_universal_transformer_base_dropout03 = derived(_adaptive_base, **dropout(0.3))
adaptive_universal_transformer_base_dropout05 = derived(_adaptive_base, **dropout(0.5))
# This model has several layers in each step, and ordinary layers before and after the recurrence.
adaptive_universal_transformer_multilayer_tpu = derived(
    adaptive_universal_transformer_base_tpu,
    num_inrecurrence_layers=2,
    mix_with_transformer="before_ut,after_ut",
    num_mixedin_layers=1,
    transformer_ffn_type="sepconv",
)
# This set has the same model with relative positions and hard attention to 8 positions.
adaptive_universal_transformer_multilayer_hard = derived(
    adaptive_universal_transformer_multilayer_tpu,
    batch_size=256,
    hard_attention_k=8,
    add_step_timing_signal=True,
    self_attention_type="dot_product_relative_v2",
    max_relative_position=256,
)

# --- Types of recurrence --------------------------------------------------------------------------

universal_transformer_skip_base = derived(_base, recurrence_type="skip")
universal_transformer_highway_base = derived(_base, recurrence_type="highway")
universal_transformer_small_dropconnect = derived(
    _small, gate_ffn_layer="dense_dropconnect", dropconnect_dropout=0.5
)
# This model attends to the states of earlier steps.
universal_transformer_dwa_base = derived(_base, recurrence_type="dwa")
# LSTM and GRU recurrences need no timing signal for the step.
universal_transformer_lstm_base = derived(_base, recurrence_type="lstm", **_NO_STEP_SIGNAL)
universal_transformer_lstm_tall = derived(_tall, recurrence_type="lstm", **_NO_STEP_SIGNAL)
universal_transformer_gru_base = derived(_base, recurrence_type="gru", **_NO_STEP_SIGNAL)

# --- Timing signals -------------------------------------------------------------------------------

universal_transformer_position_random_timing_tiny = derived(_tiny, position_start_index="random")
universal_transformer_position_step_timing_tiny = derived(_tiny, position_start_index="step")
universal_transformer_step_sinusoid_timing_tiny = derived(_tiny, step_timing_signal_type="sinusoid")
adaptive_universal_transformer_position_random_timing_tiny = derived(
    _adaptive_tiny, position_start_index="random"
)
adaptive_universal_transformer_concat_tiny = derived(
    _adaptive_tiny, add_or_concat_timing_signal="concat"
)
adaptive_universal_transformer_with_sru_base = derived(_adaptive_base, add_sru=True)

# --- Ordinary layers before or after the recurrence -----------------------------------------------

_BEFORE, _AFTER = {"mix_with_transformer": "before_ut"}, {"mix_with_transformer": "after_ut"}
universal_transformer_mix_before_ut_base = derived(_base, **_BEFORE)
universal_transformer_mix_after_ut_base = derived(_base, **_AFTER)
adaptive_universal_transformer_mix_before_ut_base = derived(_adaptive_base, **_BEFORE)
adaptive_universal_transformer_mix_after_ut_base = derived(_adaptive_base, **_AFTER)

# --- Separable convolutions for the transition ----------------------------------------------------

_SEPCONV = {"transformer_ffn_type": "sepconv"}
universal_transformer_sepconv_big = derived(_big, **_SEPCONV)
universal_transformer_sepconv_base = derived(_base, **_SEPCONV)
universal_transformer_sepconv_tiny = derived(_tiny, **_SEPCONV)
adaptive_universal_transformer_sepconv_tiny = derived(_adaptive_tiny, **_SEPCONV)

register_derived(globals())
