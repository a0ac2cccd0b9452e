"""T2T's hparams sets that are not supported, with the reason and the nearest set."""

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
    "slicenet_* mtf_transformer_*": (
        "it belongs to a model that is not supported; the nearest: transformer_base"
    ),
}
SETS.mark_all_unsupported(_REASONS)
