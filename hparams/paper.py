"""The sets that docs/results.md was made with: a task's Transformer, and what differs from it.

    transformer_TASK                       the contrast
    universal_transformer_TASK             the same training, one layer for all steps
    adaptive_universal_transformer_TASK    with adaptive computation time, started deep
    …_mixed                                batches of examples of all lengths

All are small: each learns its task on a CPU core within minutes or hours. Where the paper tells no
size, it is ours.
"""

from dataclasses import replace

from hparams import deepstart, lstm, transformer
from hparams.registry import register
from hparams.universal_transformer import make_universal
from ut_keras.hparam import LSTMHParams, TransformerHParams, UniversalTransformerHParams

_STEPS = 4


def _small():
    """Of all: width 128, hardly any regularization; a short warm-up and one fall of the rate."""
    return replace(
        transformer.transformer_tiny(),
        num_hidden_layers=_STEPS,
        filter_size=256,
        layer_prepostprocess_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        label_smoothing=0.0,
        learning_rate_schedule="constant*linear_warmup*single_cycle_cos_decay",
        learning_rate_constant=0.002,
        learning_rate_warmup_steps=200,
    )


def _adaptive(hp):
    return replace(
        deepstart.start_deep(hp),
        recurrence_type="act",
        act_max_steps=hp.num_rec_steps,
        act_loss_weight=0.001,
    )


def _adam(rate):
    """What Csordás et al. have: PyTorch's defaults, one rate, and gradients up to 5."""
    return {
        "learning_rate_schedule": "constant",
        "learning_rate_constant": rate,
        "optimizer_adam_beta2": 0.999,
        "optimizer_adam_epsilon": 1e-8,
        "clip_grad_norm": 5.0,
        "norm_epsilon": 1e-5,
    }


# --- bAbI -----------------------------------------------------------------------------------------


@register("transformer_babi")
def transformer_babi() -> TransformerHParams:
    """Of `transformer_encoder`, for a task alone and for all as one. Stories without blank rows:
    of the 71 that the padded ones have, 8 are real on average, so `batch_size` is some 100 stories.
    Word masks start apart: from the authors' ones, tasks 17 and 19 do not get going.
    """
    return replace(
        _small(),
        trim_stories=True,
        class_label_pooling="masked_mean",
        batch_size=1024,
        min_length_bucket=4,
        length_bucket_step=1.25,
        layer_prepostprocess_dropout=0.1,
        attention_dropout=0.1,
        relu_dropout=0.1,
        label_smoothing=0.1,
        learning_rate_schedule="constant*linear_warmup*linear_decay",
        learning_rate_constant=0.001,
        learning_rate_warmup_steps=1000,
        learning_rate_decay_steps=10_000,
        sentence_mask_stddev=0.5,
    )


@register("universal_transformer_babi")
def universal_transformer_babi() -> UniversalTransformerHParams:
    """The transition of the paper's time, which sees neighboring sentences, as coreference asks."""
    hp = make_universal(transformer_babi())
    return replace(hp, transformer_ffn_type="sepconv", act_mask_padding=True)


@register("adaptive_universal_transformer_babi")
def adaptive_universal_transformer_babi() -> UniversalTransformerHParams:
    return _adaptive(universal_transformer_babi())


@register("adaptive_universal_transformer_babi_t2t")
def adaptive_universal_transformer_babi_t2t() -> UniversalTransformerHParams:
    """Halting as T2T starts it, after about two steps, and at its price."""
    hp = adaptive_universal_transformer_babi()
    return replace(hp, act_halting_bias_init=1.0, act_loss_weight=0.01)


# --- Copy, reverse, addition ----------------------------------------------------------------------


@register("lstm_algorithmic")
def lstm_algorithmic() -> LSTMHParams:
    return replace(lstm.lstm_bahdanau_attention(), batch_size=2048)


@register("transformer_algorithmic")
def transformer_algorithmic() -> TransformerHParams:
    return replace(_small(), batch_size=2048)


@register("universal_transformer_algorithmic")
def universal_transformer_algorithmic() -> UniversalTransformerHParams:
    """As in the paper, positions are counted from a random one."""
    return replace(make_universal(transformer_algorithmic()), position_start_index="random")


@register("adaptive_universal_transformer_algorithmic")
def adaptive_universal_transformer_algorithmic() -> UniversalTransformerHParams:
    return _adaptive(universal_transformer_algorithmic())


@register("universal_transformer_algorithmic_ends")
def universal_transformer_algorithmic_ends() -> UniversalTransformerHParams:
    """Ours, for strings ten times as long as those trained: positions are places that both sides
    share, counted from both ends, and every step sees them. Attention keeps the 16 best keys: of
    400, the many that do not fit weigh too much together. Batches have all lengths.
    """
    return replace(
        universal_transformer_algorithmic(),
        pos="randomized_ends",
        pos_randomized_range=2048,
        max_length=640,  # as the runs had it; no string is as long
        add_position_timing_signal=False,
        position_start_index=None,
        recurrence_input_injection="add",
        num_rec_steps=2,
        hard_attention_k=16,
        use_fixed_batch_size=True,
        batch_size=64,
    )


# --- Learning to Execute --------------------------------------------------------------------------


@register("lstm_lte")
def lstm_lte() -> LSTMHParams:
    return lstm_algorithmic()


@register("transformer_lte")
def transformer_lte() -> TransformerHParams:
    return replace(_small(), batch_size=4096)


@register("universal_transformer_lte")
def universal_transformer_lte() -> UniversalTransformerHParams:
    return make_universal(transformer_lte())


@register("adaptive_universal_transformer_lte")
def adaptive_universal_transformer_lte() -> UniversalTransformerHParams:
    return _adaptive(universal_transformer_lte())


# --- Depth: table lookup, parity, addition, nested lists, sudoku (docs/depth.md) -----------------


@register("universal_transformer_depth")
def universal_transformer_depth() -> UniversalTransformerHParams:
    """Of `universal_transformer_encoder`: width 128, 4 heads and 14 steps, as the baseline of
    Csordás et al. 2022, whose classes are read from the last position, too; the rest of the
    training is ours.
    """
    hp = make_universal(replace(_small(), batch_size=1024, learning_rate_constant=0.001))
    return replace(
        hp,
        num_rec_steps=14,
        class_label_pooling="last",
        attention_dropout=0.1,
        layer_prepostprocess_dropout=0.1,
        relu_dropout=0.1,
    )


@register("adaptive_universal_transformer_depth")
def adaptive_universal_transformer_depth() -> UniversalTransformerHParams:
    return replace(_adaptive(universal_transformer_depth()), act_mask_padding=True)


@register("universal_transformer_depth_stick_breaking")
def universal_transformer_depth_stick_breaking() -> UniversalTransformerHParams:
    return replace(adaptive_universal_transformer_depth(), act_type="stick_breaking")


@register("universal_transformer_depth_random")
def universal_transformer_depth_random() -> UniversalTransformerHParams:
    """Every update draws its depth, 1 to 14."""
    return replace(universal_transformer_depth(), num_rec_steps_sampling="uniform")


@register("universal_transformer_depth_injected")
def universal_transformer_depth_injected() -> UniversalTransformerHParams:
    """Every step sees the input again."""
    return replace(universal_transformer_depth(), recurrence_input_injection="add")


@register("universal_transformer_depth_ponder_net")
def universal_transformer_depth_ponder_net() -> UniversalTransformerHParams:
    """With ACT's weight of the cost all positions are down to one step within 600 updates."""
    hp = adaptive_universal_transformer_depth()
    return replace(hp, act_type="ponder_net", act_loss_weight=0.1)


@register("universal_transformer_depth_q_halt")
def universal_transformer_depth_q_halt() -> UniversalTransformerHParams:
    """Threshold and weight of the cost as Wang et al. 2025 have them."""
    hp = adaptive_universal_transformer_depth()
    return replace(hp, act_type="q_halt", act_epsilon=0.5, act_loss_weight=0.5)


@register("universal_transformer_depth_ndr")
def universal_transformer_depth_ndr() -> UniversalTransformerHParams:
    """The Neural Data Router (Csordás et al. 2022): positions keep their states until the one that
    they attend to, the nearest one that fits, has what they wait for. No signals; norms behind.
    Gates are dropped, too: without any dropout deeper examples than those trained come out worse.
    """
    return replace(
        universal_transformer_depth(),
        copy_gate=True,
        copy_gate_dropout=0.1,
        self_attention_type="geometric",
        layer_preprocess_sequence="none",
        layer_postprocess_sequence="dan",
        add_position_timing_signal=False,
        add_step_timing_signal=False,
    )


@register("universal_transformer_ctl_ndr")
def universal_transformer_ctl_ndr() -> UniversalTransformerHParams:
    """The Neural Data Router as published: github.com/RobertCsordas/ndr at da20530d,
    sweeps/transformer_control_flow/ctl_ndr_geometric.yaml, and main.py for the bound of gradients.
    The decay, a hundredth of the rate, is of all weights; half precision is theirs, too (`amp`).
    """
    return replace(
        universal_transformer_depth_ndr(),
        hidden_size=256,
        filter_size=512,
        num_heads=1,
        geometric_normalize_score=False,
        geometric_drop_keys=True,
        ffn_postprocess_sequence="n",
        copy_gate_activation="relu",
        embedding_dropout=0.0,
        layer_prepostprocess_dropout=0.5,
        relu_dropout=0.5,
        use_target_space_embedding=False,
        use_fixed_batch_size=True,
        batch_size=512,
        **_adam(0.00015),
        optimizer="adam_w",
        weight_decay=0.0000015,
        activation_dtype="bfloat16",
    )


def _register_mixed(make):
    @register(f"{make.__name__}_mixed")
    def mixed() -> UniversalTransformerHParams:
        return replace(make(), use_fixed_batch_size=True, batch_size=64)


# NAME_mixed, of parity, addition and nested lists: all lengths in a batch. In T2T's narrow buckets
# an update sees one length alone; what long strings share with short ones was found later there, if
# at all.
for _make in (
    universal_transformer_depth,
    adaptive_universal_transformer_depth,
    universal_transformer_depth_stick_breaking,
    universal_transformer_depth_random,
    universal_transformer_depth_injected,
    universal_transformer_depth_ponder_net,
    universal_transformer_depth_q_halt,
    universal_transformer_depth_ndr,
):
    _register_mixed(_make)


# --- SCAN -----------------------------------------------------------------------------------------


@register("transformer_scan")
def transformer_scan() -> TransformerHParams:
    """As Csordás et al. 2021 trained `relative_universal`, here without its one layer for all:
    github.com/RobertCsordas/transformer_generalization at 38f2734f,
    sweeps/scan_trafo_length_cutoff.yaml and the profile `trafo_scan` of main.py, whose dropout of
    .5 no model reads: that of layers/transformer/universal_relative_transformer.py acts, .1.
    """
    return replace(
        _small(),
        num_hidden_layers=3,
        num_heads=8,
        self_attention_type="dot_product_relative_xl",
        pos=None,
        layer_preprocess_sequence="none",
        layer_postprocess_sequence="dan",
        layer_prepostprocess_dropout=0.1,
        attention_dropout=0.1,
        relu_dropout=0.1,
        embedding_dropout=0.0,
        use_target_space_embedding=False,
        use_fixed_batch_size=True,
        batch_size=256,
        **_adam(0.001),
    )


@register("universal_transformer_scan")
def universal_transformer_scan() -> UniversalTransformerHParams:
    """No signals, of steps either."""
    return replace(
        make_universal(transformer_scan()),
        add_position_timing_signal=False,
        add_step_timing_signal=False,
    )


@register("adaptive_universal_transformer_scan")
def adaptive_universal_transformer_scan() -> UniversalTransformerHParams:
    return _adaptive(universal_transformer_scan())


# --- Multi30k -------------------------------------------------------------------------------------


@register("transformer_multi30k")
def transformer_multi30k() -> TransformerHParams:
    """2.4 million weights with its 8,192 subwords; small data, so much dropout."""
    return replace(
        _small(),
        batch_size=2048,
        layer_prepostprocess_dropout=0.3,
        label_smoothing=0.1,
        learning_rate_warmup_steps=1000,
    )


@register("universal_transformer_multi30k")
def universal_transformer_multi30k() -> UniversalTransformerHParams:
    """Wider, so that it has as many weights."""
    return replace(make_universal(transformer_multi30k()), hidden_size=192, filter_size=448)


@register("adaptive_universal_transformer_multi30k")
def adaptive_universal_transformer_multi30k() -> UniversalTransformerHParams:
    return _adaptive(universal_transformer_multi30k())


# --- Text: agreement, parsing, language modelling -------------------------------------------------


@register("adaptive_universal_transformer_text")
def adaptive_universal_transformer_text() -> UniversalTransformerHParams:
    hp = make_universal(replace(_small(), batch_size=2048, layer_prepostprocess_dropout=0.3))
    return _adaptive(hp)
