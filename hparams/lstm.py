"""All hparams sets of T2T's lstm.py.

Area attention is not supported, so the sets with area attention raise an error when they are used.
"""

from ut_keras.hparam_schema.lstm_hparams import LSTMHParams
from ut_keras.hparams.registry import derived, register_derived

# The fields in which T2T's `basic_1` differs from `transformer_base`. The values of
# `transformer_base` are the defaults.
BASIC = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "max_length": 0,
    "clip_grad_norm": 2.0,
    "initializer": "orthogonal",
    "initializer_gain": 1.5,
    "optimizer_adam_epsilon": 1e-6,
    "optimizer_adam_beta1": 0.85,
    "weight_decay": 1e-6,
    "learning_rate_schedule": "legacy",
    "learning_rate_constant": 1.0,
    "learning_rate_decay_scheme": "none",
    "learning_rate_warmup_steps": 100,
    "learning_rate": 0.1,
    "moe_num_experts": 64,
    "moe_loss_coef": 0.01,
    "layer_preprocess_sequence": "none",
    "layer_postprocess_sequence": "dan",
    "shared_embedding_and_softmax_weights": False,
    "symbol_modality_num_shards": 1,
}

lstm_seq2seq = derived(
    derived(LSTMHParams, **BASIC),
    batch_size=1024,
    hidden_size=128,
    num_hidden_layers=2,
    daisy_chain_variables=False,
    initializer="uniform_unit_scaling",
    initializer_gain=1.0,
    weight_decay=0.0,
)

# --- With attention -------------------------------------------------------------------------------

lstm_bahdanau_attention = derived(lstm_seq2seq, attention_mechanism="bahdanau")
lstm_luong_attention = derived(lstm_seq2seq, attention_mechanism="luong")
lstm_attention = derived(lstm_bahdanau_attention)
lstm_bahdanau_attention_multi = derived(lstm_bahdanau_attention, num_heads=4)
# All heads have the same query, so their attention weights are equal. The heads therefore act like
# one wider attention layer.
lstm_luong_attention_multi = derived(lstm_luong_attention, num_heads=4)
lstm_asr_v1 = derived(
    lstm_bahdanau_attention,
    hidden_size=256,
    batch_size=36,
    max_input_seq_length=600000,
    max_target_seq_length=350,
    max_length=600000,
    min_length_bucket=300000,
    learning_rate=0.05,
)

# --- With area attention --------------------------------------------------------------------------

lstm_area_attention_base = derived(
    lstm_luong_attention,
    batch_size=16384,
    hidden_size=1024,
    num_heads=4,
    max_area_width=2,
    area_key_mode="mean",
    area_value_mode="sum",
)
lstm_area_attention_enfr = derived(lstm_area_attention_base, dropout=0.1)
lstm_area_attention_char = derived(lstm_area_attention_base, batch_size=20480)
lstm_area_attention_char_enfr = derived(lstm_area_attention_char, dropout=0.1)

register_derived(globals())
