"""T2T's hparams sets that are not supported, with the reason and the nearest set.

`OLDER_SETS` has the sets of Universal Transformers in T2T 1.6.5 to 1.8. T2T 1.9 removed these sets.
"""

from ut_keras.hparams.registry import SETS

# Dict from names or patterns, separated by spaces, to the reason.
_REASONS = {
    "basic_1": "it belongs to no model; in a package for T2T, use common_hparams.basic_params1()",
    "transformer_ada_lmpackedbase* transformer_base_vq* transformer_topk_16_packed "
    "transformer_moe_*": (
        "it belongs to a model with mixtures of experts; the nearest: transformer_base"
    ),
    "transformer_librispeech* transformer_common_voice*": (
        "ut_keras has no speech problems; the nearest: transformer_base"
    ),
    "transformer_cubbitt": (
        "T2T 1.15.7 does not have it; the nearest: transformer_big_single_gpu, with "
        "optimizer=Adafactor,learning_rate_schedule=rsqrt_decay,learning_rate_warmup_steps=8000,"
        "batch_size=2900,max_length=150,layer_prepostprocess_dropout=0.0"
    ),
    "*_memory_v0": "it uses attention with a memory; the nearest: transformer_wikitext103_l4k_v0",
    "transformer_mlperf_tpu": "ut_keras has no MLPerf logging; the nearest: transformer_big_tpu",
    "transformer_fairseq_fp16_activation_big": (
        "float16 requires loss scaling; the nearest: transformer_big, activation_dtype=bfloat16"
    ),
    "transformer_tpu_1b": "its weights are bfloat16; the nearest: transformer_lm_tpu_1",
    "transformer_supervised_attention": (
        "it trains the attention on alignments; the nearest: transformer_base"
    ),
    "evolved_transformer_* transformer_nat_* transformer_sketch* transformer_symshard_* "
    "transformer_vae_* transformer_ae_* transformer_aux_* transformer_revnet_* imagetransformer* "
    "slicenet_* mtf_transformer_* attention_lm_* aligned_* bytenet_* super_lm_* multimodel_* "
    "neural_assistant_* neural_stack neural_deque lstm_transduction transformer_base_bs* "
    "transformer_big_bs* transformer_tiny_bs* xception_* resnet_* revnet_* shake_shake_* "
    "shakeshake_* img2img_* image_transformer* cycle_gan_* gene_expression_*": (
        "it belongs to a model that is not supported; the nearest: transformer_base"
    ),
}

_SMALL, _TINY, _BASE = (f"universal_transformer_{size}" for size in ("small", "tiny", "base"))
_DROPOUT = "layer_prepostprocess_dropout={0},attention_dropout={0},relu_dropout={0}"
_SB = "batch_size=2048"
_RANDOM_POSITION = "position_start_index=random"

# Dict from a removed set to (the set to use, the hparams to change).
OLDER_SETS = {
    **{
        f"adaptive_{name}".replace("transformer_", f"transformer_{kind}_"): (
            f"adaptive_{name}",
            f"act_type={kind}",
        )
        for name in (_SMALL, _TINY)
        for kind in ("random", "accumulated", "global")
    },
    **{
        name.replace("transformer_", f"transformer_{kind}_"): (name, f"recurrence_type={kind}")
        for name in (_SMALL, _TINY)
        for kind in ("skip", "highway", "dwa")
    },
    **{
        f"universal_transformer_{kind}_small": (
            _SMALL,
            f"recurrence_type={kind},add_step_timing_signal=False",
        )
        for kind in ("gru", "lstm")
    },
    "universal_transformer_small_sb": (_SMALL, _SB),
    "adaptive_universal_transformer_small_sb": (f"adaptive_{_SMALL}", _SB),
    "adaptive_universal_transformer_tiny_sb": (f"adaptive_{_TINY}", _SB),
    "adaptive_universal_transformer_large": (
        f"adaptive_{_SMALL}",
        f"hidden_size=1024,filter_size=2048,{_SB}",
    ),
    "adaptive_universal_transformer_small_d03": (f"adaptive_{_SMALL}", _DROPOUT.format("0.3")),
    "adaptive_universal_transformer_base_d03": (f"adaptive_{_BASE}", _DROPOUT.format("0.3")),
    "adaptive_universal_transformer_tiny_d02": (f"adaptive_{_TINY}", _DROPOUT.format("0.2")),
    "adaptive_universal_transformer_tiny_d02_sb": (
        f"adaptive_{_TINY}",
        f"{_DROPOUT.format('0.2')},{_SB}",
    ),
    "adaptive_universal_transformer_tiny_d05": (f"adaptive_{_TINY}", _DROPOUT.format("0.5")),
    "universal_transformer_position_random_timing_small": (_SMALL, _RANDOM_POSITION),
    "adaptive_universal_transformer_position_step_timing_tiny": (
        f"adaptive_{_TINY}",
        "position_start_index=step",
    ),
    "adaptive_universal_transformer_step_sinusoid_timing_tiny": (
        f"adaptive_{_TINY}",
        "step_timing_signal_type=sinusoid",
    ),
    "universal_transformer_mix_after_ut_small": (_SMALL, "mix_with_transformer=before_ut"),
    "adaptive_universal_transformer_mix_before_ut_small": (
        f"adaptive_{_SMALL}",
        "mix_with_transformer=before_ut",
    ),
    "adaptive_universal_transformer_mix_after_ut_small": (
        f"adaptive_{_SMALL}",
        "mix_with_transformer=after_ut",
    ),
    "adaptive_universal_transformer_concat_small": (
        f"adaptive_{_SMALL}",
        "add_or_concat_timing_signal=concat",
    ),
    "adaptive_universal_transformer_with_sru_small": (f"adaptive_{_SMALL}", "add_sru=True"),
}
_SEPCONV = "transformer_ffn_type=sepconv"  # the default of these versions of T2T

SETS.mark_all_unsupported(
    {
        **_REASONS,
        **{
            name: f"T2T 1.9 removed it; use {parent} with --hparams={changes},{_SEPCONV}"
            for name, (parent, changes) in OLDER_SETS.items()
        },
        **{
            f"universal_transformer_fc_{size}": (
                f"T2T 1.9 removed it; use universal_transformer_{size}, which has this transition"
            )
            for size in ("small", "base", "big")
        },
        "universal_transformer_rnn_small": (
            "T2T 1.9 removed it; the nearest: universal_transformer_gru_base"
        ),
        "r_transformer_*": (
            "T2T 1.6.5 renamed it; use adaptive_universal_transformer_* for r_transformer_act_*, "
            f"and universal_transformer_* for the others, with --hparams={_SEPCONV}"
        ),
    }
)
