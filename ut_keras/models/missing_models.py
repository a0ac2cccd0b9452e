"""Why ut_keras lacks some models of T2T, and the nearest model that it has."""

_NEAREST = "the nearest: transformer"
_STORIES = "on a problem babi_qa_sentence_*, use"
_WITH_NEAREST_TRANSFORMER = (
    "aligned",
    "byte_net",
    "evolved_transformer",
    "neural_assistant",
    "slice_net",
    "residual_shuffle_exchange",
    "shuffle_network",
    "similarity_transformer",
    "super_lm",
    "text_cnn",
    "transformer_ae",
    "transformer_aux",
    "transformer_memory",
    "transformer_block_parallel",
    "transformer_nat",
    "transformer_regressor",
    "transformer_revnet",
    "transformer_scorer",
    "transformer_seq2edits",
    "transformer_sketch",
    "transformer_symshard",
    "transformer_vae_flow_prior",
)
_IMAGE_MODELS = (
    "imagetransformer*",
    "img2img_*",
    "vqa_*",
    "resnet*",
    "revnet*",
    "shake_shake",
    "xception",
    "autoencoder_*",
    "cycle_gan",
    "glow",
    "sliced_gan",
)
# {pattern of the names of T2T's models: the reason}
REASONS = {
    **dict.fromkeys(_WITH_NEAREST_TRANSFORMER, _NEAREST),
    "*_moe": f"{_NEAREST}, with ffn_layer=sigma_moe",
    "mtf_*": f"there is no Mesh TensorFlow; {_NEAREST}",
    "attention_lm": f"{_NEAREST}, on a problem without inputs",
    "lstm_encoder": "the nearest: lstm_seq2seq",
    "r_transformer": "T2T 1.6.5 renamed it; use universal_transformer",
    "r_transformer_encoder": "T2T 1.6.5 renamed it; use universal_transformer_encoder",
    # The models of the authors' bAbI-T2T.
    "babi_transformer": f"{_STORIES} transformer_encoder",
    "babi_universal_transformer": f"{_STORIES} universal_transformer_encoder",
    "babi_r_transformer": f"{_STORIES} universal_transformer_encoder",
    "neural_*_model": "the nearest: universal_transformer",
    **dict.fromkeys(_IMAGE_MODELS, "there are no problems of images"),
    "next_frame_*": "there are no problems of video",
    "gene_expression_conv": "there are no problems of genes",
    "*_policy*": "there is no reinforcement learning",
}
