"""T2T's layers.modalities: the names of the kinds of features."""

import types
from typing import Any

_NAMES = """
    audio audio_spectral class_label ctc_symbol identity identity_symbol image
    image_channel_bottom_identity image_channel_compress image_channel_embeddings_bottom
    multi_label one_hot_class_label real sigmoid_class_label sigmoid_max_pooling_class_label
    softmax_average_pooling_class_label softmax_last_timestep_class_label
    softmax_max_pooling_class_label speech_recognition symbol symbol_weights_all symbol_one_hot
    video video_bitwise video_identity
"""
# Here work SYMBOL and CLASS_LABEL.
ModalityType: Any = types.SimpleNamespace(
    **{name.upper(): name for name in _NAMES.split()},
    GENERIC_L2_LOSS="generic_l2",
    REAL_L2_LOSS="real_l2",
    REAL_LOG_POISSON_LOSS="real_log_poisson",
)
