"""T2T's sets that are not here, each with the reason and the nearest."""

from ut_keras.hparams.registry import SETS

_EXPERTS = "it is of a model with mixtures of experts; the nearest: transformer_base"
_SPEECH = "there are no problems of speech; the nearest: transformer_base"
_MEMORY = "its attention has a memory; the nearest: transformer_wikitext103_l4k_v0"
_OTHER_MODEL = "it is of a model that is not here; the nearest: transformer_base"

for _pattern, _reason in {
    "basic_1": "it is of no model; in a package for T2T it is common_hparams.basic_params1()",
    "transformer_ada_lmpackedbase*": _EXPERTS,
    "transformer_base_vq*": _EXPERTS,
    "transformer_topk_16_packed": _EXPERTS,
    "transformer_moe_*": _EXPERTS,
    "transformer_librispeech*": _SPEECH,
    "transformer_common_voice*": _SPEECH,
    "*_memory_v0": _MEMORY,
    "transformer_mlperf_tpu": "there is no MLPerf logging; the nearest: transformer_big_tpu",
    "transformer_fairseq_fp16_activation_big": (
        "float16 needs loss scaling; the nearest: transformer_big, activation_dtype=bfloat16"
    ),
    "transformer_tpu_1b": "its weights are bfloat16; the nearest: transformer_lm_tpu_1",
    "transformer_supervised_attention": (
        "its attention is trained by alignments; the nearest: transformer_base"
    ),
    "evolved_transformer_*": _OTHER_MODEL,
    "transformer_nat_*": _OTHER_MODEL,
    "transformer_sketch*": _OTHER_MODEL,
    "transformer_symshard_*": _OTHER_MODEL,
    "transformer_vae_*": _OTHER_MODEL,
    "slicenet_*": _OTHER_MODEL,
    "mtf_transformer_*": _OTHER_MODEL,
}.items():
    SETS.refuse(_pattern, _reason)
