"""Hparams sets that T2T lacks: deep starts, and the sets of docs/results.md.

A set with a deep start has an initial halting bias of -3, so that positions use nearly all steps at
first. With T2T's bias of +1, every position halts after about 2 steps before the model has learned
anything. The other sets contain a Transformer and its variants for each task:

    transformer_TASK                       a Transformer for comparison
    universal_transformer_TASK             the same training, with the same layer in all steps
    adaptive_universal_transformer_TASK    with Adaptive Computation Time and a deep start
    …_mixed                                batches that mix examples of all lengths

All models are small: each learns its task on a CPU core within minutes or hours. Sizes that the
paper does not give are our choice.
"""

from dataclasses import replace

from ut_keras.hparam_schema import UniversalTransformerHParams
from ut_keras.hparams import lstm, neural_gpu, transformer, universal_transformer
from ut_keras.hparams.registry import derived, register_derived
from ut_keras.hparams.transformer import POST_NORM, dropout
from ut_keras.hparams.universal_transformer import make_universal


def start_deep(hp: UniversalTransformerHParams) -> UniversalTransformerHParams:
    """Return `hp` with a halting bias for nearly `act_max_steps` steps at first."""
    return replace(hp, act_halting_bias_init=-3.0)


adaptive_universal_transformer_base_deepstart = derived(
    universal_transformer.adaptive_universal_transformer_base, start_deep
)
adaptive_universal_transformer_small_deepstart = derived(
    universal_transformer.adaptive_universal_transformer_small, start_deep
)
adaptive_universal_transformer_tiny_deepstart = derived(
    universal_transformer.adaptive_universal_transformer_tiny, start_deep
)
# Fields of a model of width 128 with little regularization. After a short warm-up, the learning
# rate decays.
_SMALL = {
    "hidden_size": 128,
    "filter_size": 256,
    "num_heads": 4,
    **dropout(0.0),
    "label_smoothing": 0.0,
    "learning_rate_schedule": "constant*linear_warmup*single_cycle_cos_decay",
    "learning_rate_warmup_steps": 200,
}
# This set learns a small task on a CPU within minutes.
adaptive_universal_transformer_quick = derived(
    adaptive_universal_transformer_tiny_deepstart,
    **_SMALL,
    batch_size=2048,
    learning_rate_constant=0.003,
)
# The set of `make demo`, which learns to reverse strings of up to 40 digits. Relative attention
# lets a digit learn its distance to the end of the string. The lengths of the strings increase in
# three stages. Every batch mixes the lengths of its stage. A length includes EOS.
adaptive_universal_transformer_demo = derived(
    adaptive_universal_transformer_quick,
    hidden_size=64,
    filter_size=128,
    self_attention_type="dot_product_relative",
    max_relative_position=40,
    act_max_steps=3,
    act_force_final_remainder=True,
    act_loss_weight=0.001,
    use_fixed_batch_size=True,
    batch_size=64,
    curriculum_start_length=11,
    curriculum_length_step=15,
    curriculum_accuracy=0.5,
    curriculum_updates=20,
    learning_rate_constant=0.004,
    learning_rate_warmup_steps=100,
    optimizer_adam_beta2=0.98,
)


def _small():
    return replace(
        transformer.transformer_tiny(), **_SMALL, num_hidden_layers=4, learning_rate_constant=0.002
    )


_NO_SIGNALS = {"add_position_timing_signal": False, "add_step_timing_signal": False}


def _adaptive(hp):
    return replace(
        start_deep(hp), recurrence_type="act", act_max_steps=hp.num_rec_steps, act_loss_weight=0.001
    )


def _adam(rate):
    """Return the hparams of the optimizer of Csordás et al.

    The optimizer is Adam with PyTorch's defaults and a constant learning rate. Gradients are
    clipped at a norm of 5.
    """
    return {
        "learning_rate_schedule": "constant",
        "learning_rate_constant": rate,
        "optimizer_adam_beta2": 0.999,
        "optimizer_adam_epsilon": 1e-8,
        "clip_grad_norm": 5.0,
        "norm_epsilon": 1e-5,
    }


# --- bAbI -----------------------------------------------------------------------------------------

# This set is for `transformer_encoder`, on one task or on all tasks together. The empty sentences
# of stories are removed, because a padded story has 71 sentences, of which 8 are real on average.
# Then a batch of `batch_size` contains about 100 stories. The word masks have different initial
# values. If all masks are initially 1, as in the authors' code, training makes no progress on tasks
# 17 and 19.
transformer_babi = derived(
    _small,
    trim_stories=True,
    class_label_pooling="masked_mean",
    batch_size=1024,
    min_length_bucket=4,
    length_bucket_step=1.25,
    **dropout(0.1),
    label_smoothing=0.1,
    learning_rate_schedule="constant*linear_warmup*linear_decay",
    learning_rate_constant=0.001,
    learning_rate_warmup_steps=1000,
    learning_rate_decay_steps=10_000,
    sentence_mask_stddev=0.5,
)
# A separable convolution was the default transition at the time of the paper. The convolution sees
# neighboring sentences, which helps to resolve coreferences.
universal_transformer_babi = derived(
    transformer_babi, make_universal, transformer_ffn_type="sepconv", act_mask_padding=True
)
adaptive_universal_transformer_babi = derived(universal_transformer_babi, _adaptive)
# Batches of about 600 stories for a GPU. The authors use batches of 4,096 stories.
_LARGE_BATCH = {"batch_size": 8192, "length_bucket_step": 1.5}
transformer_babi_large_batch = derived(transformer_babi, **_LARGE_BATCH)
universal_transformer_babi_large_batch = derived(universal_transformer_babi, **_LARGE_BATCH)
adaptive_universal_transformer_babi_large_batch = derived(
    adaptive_universal_transformer_babi, **_LARGE_BATCH
)
# This set has T2T's ponder cost and T2T's initial halting bias, which leads to about two steps.
adaptive_universal_transformer_babi_t2t = derived(
    adaptive_universal_transformer_babi, act_halting_bias_init=1.0, act_loss_weight=0.01
)
# These sets are for the problems of size 1k, which have 900 training stories per task.
transformer_babi_1k = derived(transformer_babi, **dropout(0.3))
universal_transformer_babi_1k = derived(
    universal_transformer_babi, **dropout(0.3), position_start_index="random"
)
adaptive_universal_transformer_babi_1k = derived(universal_transformer_babi_1k, _adaptive)
# This set is for one task with permuted stories, which the paper does not have. The model is small.
# It predicts the class from the position of the question.
universal_transformer_babi_permuted = derived(
    universal_transformer_babi,
    hidden_size=64,
    filter_size=128,
    num_rec_steps=3,
    transformer_ffn_type="fc",
    class_label_pooling="last",
    batch_size=1280,
    **dropout(0.0),
    label_smoothing=0.0,
    learning_rate_schedule="constant*linear_warmup",
    learning_rate_constant=0.002,
    optimizer_adam_beta2=0.98,
    clip_grad_norm=1.0,
)
# This set is for one model of all tasks. It has the sizes and the convolution of the joint models.
universal_transformer_babi_permuted_joint = derived(
    universal_transformer_babi_permuted,
    hidden_size=128,
    filter_size=256,
    num_rec_steps=4,
    transformer_ffn_type="sepconv",
)

# --- Copy, reverse, addition ----------------------------------------------------------------------

lstm_algorithmic = derived(lstm.lstm_bahdanau_attention, batch_size=2048)
transformer_algorithmic = derived(_small, batch_size=2048)
# As in the paper, positions are counted from a random number.
universal_transformer_algorithmic = derived(
    transformer_algorithmic, make_universal, position_start_index="random"
)
adaptive_universal_transformer_algorithmic = derived(universal_transformer_algorithmic, _adaptive)
# This set is for test strings that are ten times as long as the training strings. The paper does
# not have this model. Encoder and decoder share position signals, which are added in every step.
# Attention uses only the 16 best of 400 keys, because the many wrong keys would have too much
# weight in total. Batches mix all lengths.
universal_transformer_algorithmic_coupled = derived(
    universal_transformer_algorithmic,
    pos="coupled",
    add_position_timing_signal=False,
    position_start_index=None,
    recurrence_input_injection="add",
    num_rec_steps=2,
    num_heads=1,
    hard_attention_k=16,
    use_fixed_batch_size=True,
    batch_size=64,
)
universal_transformer_algorithmic_coupled_reversed = derived(
    universal_transformer_algorithmic_coupled, pos="coupled(order='reversed')"
)
# The separator 12 is the id of the sign. With this separator, digits of equal place value share a
# position signal. To compute the carry, a position must find its predecessor. Permuted position
# signals do not encode which position is the predecessor, but relative attention does.
universal_transformer_algorithmic_coupled_sum = derived(
    universal_transformer_algorithmic_coupled,
    pos="coupled(separator=12)",
    self_attention_type="dot_product_relative",
    max_relative_position=4,
    num_heads=2,
)

# This set has a curriculum of lengths, like the Neural GPU in the paper's table. The state at
# padding stays 0, so that padding does not change the result for any length. The values were not
# tuned in runs.
neural_gpu_algorithmic = derived(
    neural_gpu.neural_gpu,
    hidden_size=128,
    dropout=0.0,
    conv_mask_padding=True,
    batch_size=2048,
    learning_rate_schedule="constant*linear_warmup",
    learning_rate_constant=0.003,
    learning_rate_warmup_steps=200,
    clip_grad_norm=1.0,
    curriculum_start_length=5,
    curriculum_length_step=2,
)

# --- Learning to Execute --------------------------------------------------------------------------

lstm_lte = derived(lstm_algorithmic)
transformer_lte = derived(_small, batch_size=4096)
universal_transformer_lte = derived(transformer_lte, make_universal)
adaptive_universal_transformer_lte = derived(universal_transformer_lte, _adaptive)
# With three changes, the model learns earlier to find digits. The set has relative attention, a
# transition that sees neighboring positions, and more updates with fewer tokens each.
transformer_lte_small_batch = derived(
    transformer_lte,
    self_attention_type="dot_product_relative",
    max_relative_position=20,
    batch_size=1024,
    learning_rate_constant=0.001,
)
universal_transformer_lte_small_batch = derived(
    transformer_lte_small_batch, make_universal, transformer_ffn_type="sepconv"
)
# This set is for a GPU. The model is wider and deeper. There are three length buckets, and an
# update has four times as many tokens as in `transformer_lte`.
universal_transformer_lte_large_batch = derived(
    universal_transformer_lte_small_batch,
    hidden_size=256,
    filter_size=1024,
    num_heads=8,
    num_rec_steps=6,
    batch_size=16384,
    min_length_bucket=15,
    length_bucket_step=1.9,
    learning_rate_schedule="constant*linear_warmup*linear_decay",
    learning_rate_warmup_steps=1000,
    learning_rate_decay_steps=20_000,
    clip_grad_norm=1.0,
)

# --- Depth: table lookup, parity, addition, nested lists, sudoku (docs/depth.md) -----------------

# This set is for `universal_transformer_encoder`. Like the baseline in Csordás et al. 2022, the
# model has width 128, 4 heads and 14 steps, and predicts the class from the last position. All
# other hparams are our choice.
universal_transformer_depth = derived(
    _small,
    make_universal,
    batch_size=1024,
    learning_rate_constant=0.001,
    num_rec_steps=14,
    class_label_pooling="last",
    **dropout(0.1),
)
adaptive_universal_transformer_depth = derived(
    universal_transformer_depth, _adaptive, act_mask_padding=True
)
universal_transformer_depth_stick_breaking = derived(
    adaptive_universal_transformer_depth, act_type="stick_breaking"
)
# Every update samples its number of steps from 1 to 14.
universal_transformer_depth_random = derived(
    universal_transformer_depth, num_rec_steps_sampling="uniform"
)
# Every step receives the input again.
universal_transformer_depth_injected = derived(
    universal_transformer_depth, recurrence_input_injection="add"
)
# The cost weight is different from the ACT set. With the cost weight of the ACT set, all positions
# use only one step after 600 updates.
universal_transformer_depth_ponder_net = derived(
    adaptive_universal_transformer_depth, act_type="ponder_net", act_loss_weight=0.1
)
# The threshold and the cost weight are those of Wang et al. 2025.
universal_transformer_depth_q_halt = derived(
    adaptive_universal_transformer_depth, act_type="q_halt", act_epsilon=0.5, act_loss_weight=0.5
)
# The Neural Data Router (Csordás et al. 2022). Each position attends to the nearest matching
# position, and keeps its state until the matching position has computed its result. There are no
# position or step signals, and norms come after each layer. The gates have dropout, because without
# dropout, the accuracy on examples that are deeper than in training is worse.
universal_transformer_depth_ndr = derived(
    universal_transformer_depth,
    copy_gate=True,
    copy_gate_dropout=0.1,
    self_attention_type="geometric",
    **POST_NORM,
    **_NO_SIGNALS,
)
# For more steps at inference than in training (benchmarks/results/tables/depth_more_steps.py). The
# model has width 64 and at most 4 steps in training, so that many recipes can have three seeds. A
# step signal would be unknown after the last trained step, so there is none. The learning rate and
# the missing dropout let the model learn sums within 1,000 updates.
universal_transformer_more_steps = derived(
    universal_transformer_depth,
    hidden_size=64,
    filter_size=128,
    num_rec_steps=4,
    add_step_timing_signal=False,
    learning_rate_constant=0.002,
    **dropout(0.0),
    use_fixed_batch_size=True,
    batch_size=64,
)
# The Neural Data Router as published. The values are from github.com/RobertCsordas/ndr at da20530d,
# sweeps/transformer_control_flow/ctl_ndr_geometric.yaml. The value for gradient clipping is from
# main.py in the same repository. The weight decay is a hundredth of the learning rate and applies
# to all weights. Unlike this set, the publication uses half precision (`amp`).
universal_transformer_ctl_ndr = derived(
    universal_transformer_depth_ndr,
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


# --- SCAN -----------------------------------------------------------------------------------------

# A Transformer, whose layers are not shared, with the training of `relative_universal` in Csordás
# et al. 2021. The values are from github.com/RobertCsordas/transformer_generalization at 38f2734f,
# sweeps/scan_trafo_length_cutoff.yaml, and from the profile `trafo_scan` of main.py. These files
# contain a dropout of 0.5, which no model reads. Therefore this set has the dropout of 0.1 from
# layers/transformer/universal_relative_transformer.py.
transformer_scan = derived(
    _small,
    num_hidden_layers=3,
    num_heads=8,
    self_attention_type="dot_product_relative_xl",
    pos=None,
    **POST_NORM,
    **dropout(0.1),
    embedding_dropout=0.0,
    use_target_space_embedding=False,
    use_fixed_batch_size=True,
    batch_size=256,
    **_adam(0.001),
)
universal_transformer_scan = derived(transformer_scan, make_universal, **_NO_SIGNALS)
# The publication does not scale the embeddings.
universal_transformer_scan_published = derived(
    universal_transformer_scan, multiply_embedding_mode="none"
)
adaptive_universal_transformer_scan = derived(universal_transformer_scan, _adaptive)

# --- Multi30k -------------------------------------------------------------------------------------

# The model has 2.4 million weights with 8,192 subwords. The dataset is small, so dropout is high.
transformer_multi30k = derived(
    _small,
    batch_size=2048,
    layer_prepostprocess_dropout=0.3,
    label_smoothing=0.1,
    learning_rate_warmup_steps=1000,
)
# The model is wider than the Transformer, so that both have the same number of weights.
universal_transformer_multi30k = derived(
    transformer_multi30k, make_universal, hidden_size=192, filter_size=448
)
adaptive_universal_transformer_multi30k = derived(universal_transformer_multi30k, _adaptive)

# --- Text: agreement, parsing, language modelling -------------------------------------------------

transformer_text = derived(_small, batch_size=2048, layer_prepostprocess_dropout=0.3)
universal_transformer_text = derived(transformer_text, make_universal)
adaptive_universal_transformer_text = derived(universal_transformer_text, _adaptive)
# T2T's LSTM with two layers, trained with the settings of `transformer_text`.
lstm_text = derived(
    lstm.lstm_bahdanau_attention,
    batch_size=2048,
    dropout=0.3,
    learning_rate_schedule=_SMALL["learning_rate_schedule"],
    learning_rate_constant=0.002,
    learning_rate_warmup_steps=_SMALL["learning_rate_warmup_steps"],
)

# Each set for depth has a variant NAME_mixed for parity, addition and nested lists. The batches of
# this variant mix all lengths. With T2T's narrow buckets, the examples of an update have a single
# length. In that case, models learned later, or never, what long and short strings have in common.
_MIXED = {
    f"{name}_mixed": derived(value, use_fixed_batch_size=True, batch_size=64)
    for name, value in globals().items()
    if "universal_transformer_depth" in name
}

register_derived({**globals(), **_MIXED})
