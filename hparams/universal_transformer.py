"""T2T's sets for the (Adaptive) Universal Transformer: all of its universal_transformer.py."""

from dataclasses import replace

from hparams import transformer
from hparams.registry import register
from ut_keras.hparam import TransformerHParams, UniversalTransformerHParams


def make_universal(hp: TransformerHParams) -> UniversalTransformerHParams:
    """The Universal Transformer of a Transformer's size: as many steps as that has layers."""
    values = hp.to_dict()
    del values["pos"], values["daisy_chain_variables"]  # the two defaults that differ
    return UniversalTransformerHParams(
        **values,
        num_rec_steps=hp.num_hidden_layers,
        act_max_steps=2 * hp.num_hidden_layers,
    )


# --- Sizes ----------------------------------------------------------------------------------------


@register("universal_transformer_base")
def universal_transformer_base() -> UniversalTransformerHParams:
    return make_universal(
        replace(
            transformer.transformer_base(),
            hidden_size=1024,
            filter_size=4096,
            num_heads=16,
            layer_prepostprocess_dropout=0.3,
        )
    )


@register("universal_transformer_big")
def universal_transformer_big() -> UniversalTransformerHParams:
    return replace(universal_transformer_base(), hidden_size=2048, filter_size=8192)


@register("universal_transformer_small")
def universal_transformer_small() -> UniversalTransformerHParams:
    return make_universal(transformer.transformer_base())


@register("universal_transformer_tiny")
def universal_transformer_tiny() -> UniversalTransformerHParams:
    return replace(make_universal(transformer.transformer_tiny()), num_rec_steps=8)


@register("universal_transformer_teeny")
def universal_transformer_teeny() -> UniversalTransformerHParams:
    return replace(make_universal(transformer.transformer_teeny()), num_rec_steps=10)


@register("universal_transformer_tall")
def universal_transformer_tall() -> UniversalTransformerHParams:
    return replace(universal_transformer_small(), num_rec_steps=16)


@register("universal_transformer_base_tpu")
def universal_transformer_base_tpu() -> UniversalTransformerHParams:
    return replace(
        transformer.fit_for_tpu(universal_transformer_base()), add_step_timing_signal=False
    )


@register("universal_transformer_base_fp16")
def universal_transformer_base_fp16() -> UniversalTransformerHParams:
    return replace(universal_transformer_small(), activation_dtype="float16")


# --- Adaptive computation time --------------------------------------------------------------------


@register("adaptive_universal_transformer_base")
def adaptive_universal_transformer_base() -> UniversalTransformerHParams:
    return replace(universal_transformer_base(), recurrence_type="act")


@register("adaptive_universal_transformer_small")
def adaptive_universal_transformer_small() -> UniversalTransformerHParams:
    return replace(universal_transformer_small(), recurrence_type="act")


@register("adaptive_universal_transformer_tiny")
def adaptive_universal_transformer_tiny() -> UniversalTransformerHParams:
    return replace(universal_transformer_tiny(), recurrence_type="act")


@register("adaptive_universal_transformer_base_tpu")
def adaptive_universal_transformer_base_tpu() -> UniversalTransformerHParams:
    return replace(
        transformer.fit_for_tpu(adaptive_universal_transformer_base()), add_step_timing_signal=False
    )


@register("adaptive_universal_transformer_global_base")
def adaptive_universal_transformer_global_base() -> UniversalTransformerHParams:
    return replace(adaptive_universal_transformer_base(), act_type="global")


@register("adaptive_universal_transformer_global_base_tpu")
def adaptive_universal_transformer_global_base_tpu() -> UniversalTransformerHParams:
    return replace(
        transformer.fit_for_tpu(adaptive_universal_transformer_global_base()),
        add_step_timing_signal=False,
    )


@register("adaptive_universal_transformer_tall")
def adaptive_universal_transformer_tall() -> UniversalTransformerHParams:
    """num_hidden_layers is T2T's and has no effect."""
    return replace(
        adaptive_universal_transformer_small(),
        num_hidden_layers=16,
        batch_size=1024,
        act_max_steps=24,
    )


@register("adaptive_universal_transformer_tall_actlossw0")
def adaptive_universal_transformer_tall_actlossw0() -> UniversalTransformerHParams:
    return replace(adaptive_universal_transformer_tall(), act_loss_weight=0.0)


@register("adaptive_universal_transformer_tall_actlossw001")
def adaptive_universal_transformer_tall_actlossw001() -> UniversalTransformerHParams:
    return replace(adaptive_universal_transformer_tall(), act_loss_weight=0.001)


@register("adaptive_universal_transformer_base_dropout03")
def adaptive_universal_transformer_base_dropout03() -> UniversalTransformerHParams:
    return replace(
        adaptive_universal_transformer_base(),
        layer_prepostprocess_dropout=0.3,
        attention_dropout=0.3,
        relu_dropout=0.3,
    )


@register("adaptive_universal_transformer_base_dropout05")
def adaptive_universal_transformer_base_dropout05() -> UniversalTransformerHParams:
    return replace(
        adaptive_universal_transformer_base(),
        layer_prepostprocess_dropout=0.5,
        attention_dropout=0.5,
        relu_dropout=0.5,
    )


@register("adaptive_universal_transformer_multilayer_tpu")
def adaptive_universal_transformer_multilayer_tpu() -> UniversalTransformerHParams:
    """Several layers in each step, and layers of their own before and after."""
    return replace(
        adaptive_universal_transformer_base_tpu(),
        num_inrecurrence_layers=2,
        mix_with_transformer="before_ut,after_ut",
        num_mixedin_layers=1,
        transformer_ffn_type="sepconv",
    )


@register("adaptive_universal_transformer_multilayer_hard")
def adaptive_universal_transformer_multilayer_hard() -> UniversalTransformerHParams:
    """The same with hard attention to 8 positions, and relative positions."""
    return replace(
        adaptive_universal_transformer_multilayer_tpu(),
        batch_size=256,
        hard_attention_k=8,
        add_step_timing_signal=True,
        self_attention_type="dot_product_relative_v2",
        max_relative_position=256,
    )


# --- How one step becomes the next ----------------------------------------------------------------


@register("universal_transformer_skip_base")
def universal_transformer_skip_base() -> UniversalTransformerHParams:
    return replace(universal_transformer_base(), recurrence_type="skip")


@register("universal_transformer_highway_base")
def universal_transformer_highway_base() -> UniversalTransformerHParams:
    return replace(universal_transformer_base(), recurrence_type="highway")


@register("universal_transformer_small_dropconnect")
def universal_transformer_small_dropconnect() -> UniversalTransformerHParams:
    return replace(
        universal_transformer_small(),
        gate_ffn_layer="dense_dropconnect",
        dropconnect_dropout=0.5,
    )


@register("universal_transformer_dwa_base")
def universal_transformer_dwa_base() -> UniversalTransformerHParams:
    """Attention over the states of earlier steps."""
    return replace(universal_transformer_base(), recurrence_type="dwa")


@register("universal_transformer_lstm_base")
def universal_transformer_lstm_base() -> UniversalTransformerHParams:
    """An LSTM counts the steps itself."""
    return replace(
        universal_transformer_base(),
        recurrence_type="lstm",
        add_step_timing_signal=False,
    )


@register("universal_transformer_lstm_tall")
def universal_transformer_lstm_tall() -> UniversalTransformerHParams:
    return replace(
        universal_transformer_tall(),
        recurrence_type="lstm",
        add_step_timing_signal=False,
    )


@register("universal_transformer_gru_base")
def universal_transformer_gru_base() -> UniversalTransformerHParams:
    """A GRU counts the steps itself."""
    return replace(
        universal_transformer_base(),
        recurrence_type="gru",
        add_step_timing_signal=False,
    )


# --- Timing signals -------------------------------------------------------------------------------


@register("universal_transformer_position_random_timing_tiny")
def universal_transformer_position_random_timing_tiny() -> UniversalTransformerHParams:
    return replace(universal_transformer_tiny(), position_start_index="random")


@register("universal_transformer_position_step_timing_tiny")
def universal_transformer_position_step_timing_tiny() -> UniversalTransformerHParams:
    return replace(universal_transformer_tiny(), position_start_index="step")


@register("universal_transformer_step_sinusoid_timing_tiny")
def universal_transformer_step_sinusoid_timing_tiny() -> UniversalTransformerHParams:
    return replace(universal_transformer_tiny(), step_timing_signal_type="sinusoid")


@register("adaptive_universal_transformer_position_random_timing_tiny")
def adaptive_universal_transformer_position_random_timing_tiny() -> UniversalTransformerHParams:
    return replace(adaptive_universal_transformer_tiny(), position_start_index="random")


@register("adaptive_universal_transformer_concat_tiny")
def adaptive_universal_transformer_concat_tiny() -> UniversalTransformerHParams:
    return replace(adaptive_universal_transformer_tiny(), add_or_concat_timing_signal="concat")


@register("adaptive_universal_transformer_with_sru_base")
def adaptive_universal_transformer_with_sru_base() -> UniversalTransformerHParams:
    return replace(adaptive_universal_transformer_base(), add_sru=True)


# --- Ordinary layers before or after the recurrence -----------------------------------------------


@register("universal_transformer_mix_before_ut_base")
def universal_transformer_mix_before_ut_base() -> UniversalTransformerHParams:
    return replace(universal_transformer_base(), mix_with_transformer="before_ut")


@register("universal_transformer_mix_after_ut_base")
def universal_transformer_mix_after_ut_base() -> UniversalTransformerHParams:
    return replace(universal_transformer_base(), mix_with_transformer="after_ut")


@register("adaptive_universal_transformer_mix_before_ut_base")
def adaptive_universal_transformer_mix_before_ut_base() -> UniversalTransformerHParams:
    return replace(adaptive_universal_transformer_base(), mix_with_transformer="before_ut")


@register("adaptive_universal_transformer_mix_after_ut_base")
def adaptive_universal_transformer_mix_after_ut_base() -> UniversalTransformerHParams:
    return replace(adaptive_universal_transformer_base(), mix_with_transformer="after_ut")


# --- Separable convolutions for the transition ----------------------------------------------------


@register("universal_transformer_sepconv_big")
def universal_transformer_sepconv_big() -> UniversalTransformerHParams:
    return replace(universal_transformer_big(), transformer_ffn_type="sepconv")


@register("universal_transformer_sepconv_base")
def universal_transformer_sepconv_base() -> UniversalTransformerHParams:
    return replace(universal_transformer_base(), transformer_ffn_type="sepconv")


@register("universal_transformer_sepconv_tiny")
def universal_transformer_sepconv_tiny() -> UniversalTransformerHParams:
    return replace(universal_transformer_tiny(), transformer_ffn_type="sepconv")


@register("adaptive_universal_transformer_sepconv_tiny")
def adaptive_universal_transformer_sepconv_tiny() -> UniversalTransformerHParams:
    return replace(adaptive_universal_transformer_tiny(), transformer_ffn_type="sepconv")
