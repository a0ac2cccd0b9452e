"""T2T's hyperparameters that ut_keras does not read.

An `unsupported` field accepts only its default. An `ignored` field accepts any value. The
declaration of an `ignored` field gives the reason why the value has no effect.

The hparams classes inherit these fields, so that all fields of T2T's hparams.json can be read and
written. The hparams classes themselves declare the fields that have an effect.
"""

import dataclasses
from typing import Literal

from ut_keras.hparam_schema.field import (
    NON_NEGATIVE,
    POSITIVE,
    RATE,
    field,
    ignored,
    training,
    unsupported,
)

OTHER_MODELS = "it belongs to T2T models that ut_keras does not have"
_OF_CONVOLUTIONS = "only the Neural GPUs read it"
_OF_BASELINES = "only the LSTMs and the Neural GPUs read it"
NO_EXPERTS = "the only mixture of experts is ffn_layer=sigma_moe, which has its own arguments"
_NO_NORMS = "an LSTM has no norms and no residual connections"
_NO_SELF_ATTENTION = "an LSTM has no self-attention"
_ONLY_CONVOLUTIONS = "a Neural GPU has only gated convolutions"
_FIRST_VOCABULARY = (
    "the vocabulary is the first problem's, followed by ids of the tasks and the classes"
)
_SAMPLING = "--decode_hparams=beam_size=1,sampling_temp=…"
PrependMode = Literal["none", "prepend_inputs_masked_attention", "prepend_inputs_full_attention"]
_LAYERS = "the depth is num_rec_steps, or act_max_steps where recurrence_type is 'act'"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BasicIgnoredFields:
    """Fields that models do not read, unless an hparams class declares them again."""

    # --- Input pipeline -------------------------------------------------------------------------
    pack_dataset: bool = unsupported(False)
    pad_batch: bool = unsupported(False)
    prepend_mode: PrependMode = unsupported("none", architecture=True)
    split_to_length: int = unsupported(0, NON_NEGATIVE)
    split_targets_chunk_length: int = unsupported(0, NON_NEGATIVE)
    split_targets_max_chunks: int = unsupported(100, POSITIVE)
    split_targets_strided_training: bool = unsupported(False)
    video_num_input_frames: int = ignored(1, OTHER_MODELS)
    video_num_target_frames: int = ignored(1, OTHER_MODELS)
    use_custom_ops: bool = ignored(True, "ut_keras has no custom ops")

    # --- Size -----------------------------------------------------------------------------------
    kernel_height: int = ignored(3, _OF_CONVOLUTIONS)
    kernel_width: int = ignored(1, _OF_CONVOLUTIONS)
    compress_steps: int = ignored(0, OTHER_MODELS)

    # --- Embedding and softmax ------------------------------------------------------------------
    symbol_dropout: float = unsupported(0.0, RATE)
    vocab_divisor: int = unsupported(1, POSITIVE, architecture=True)
    factored_logits: bool = unsupported(False)

    # --- Before and after each layer ------------------------------------------------------------
    dropout: float = ignored(0.2, _OF_BASELINES)

    # --- Initial weights ------------------------------------------------------------------------
    pretrained_model_dir: str = unsupported("")
    warm_start_from_second: str = unsupported("")

    # --- Optimizer ------------------------------------------------------------------------------
    weight_noise: float = training(0.0, NON_NEGATIVE, supported=())

    # --- Learning rate --------------------------------------------------------------------------
    learning_rate_minimum: float | None = ignored(None, "T2T does not read it either")

    # --- Precision and devices ------------------------------------------------------------------
    weight_dtype: Literal["float32", "bfloat16"] = unsupported("float32")
    gpu_automatic_mixed_precision: bool = unsupported(False)
    mixed_precision_optimizer_loss_scaler: str = unsupported("exponential")
    mixed_precision_optimizer_init_loss_scale: int = unsupported(32768, NON_NEGATIVE)
    daisy_chain_variables: bool = ignored(True, "tf.distribute places the variables")
    no_data_parallelism: bool = unsupported(False)
    tpu_enable_host_call: bool = ignored(False, "the trainer writes its own summaries")
    summarize_grads: bool = ignored(False, "the trainer writes its own summaries")
    summarize_vars: bool = ignored(False, "the trainer writes its own summaries")
    mlperf_mode: bool = unsupported(False)

    # --- Decoding -------------------------------------------------------------------------------
    sampling_method: Literal["argmax", "random", "random_per_example"] = unsupported(
        "argmax", instead=_SAMPLING
    )
    sampling_temp: float = unsupported(1.0, instead=_SAMPLING)
    sampling_keep_top_k: int = unsupported(
        -1, instead="--decode_hparams=beam_size=1,sampling_temp=…,top_k=…"
    )
    force_full_predict: bool = unsupported(False)
    eval_run_autoregressive: bool = unsupported(False, instead="--schedule=train_eval_and_decode")

    # --- Relative and area attention ------------------------------------------------------------
    area_key_mode: str = unsupported("none", architecture=True)
    area_value_mode: str = unsupported("none", architecture=True)
    num_area_layers: int = unsupported(0, NON_NEGATIVE, architecture=True)
    max_area_width: int = unsupported(1, POSITIVE, architecture=True)
    max_area_height: int = unsupported(1, POSITIVE, architecture=True)
    memory_height: int = unsupported(1, POSITIVE, architecture=True)

    # --- Mixture of experts ---------------------------------------------------------------------
    moe_hidden_sizes: str = field("2048", ignored=NO_EXPERTS, comma_separated=True)
    moe_num_experts: int = ignored(16, NO_EXPERTS)
    moe_k: int = ignored(2, NO_EXPERTS)
    moe_loss_coef: float = ignored(0.001, NO_EXPERTS)

    # --- Scheduled sampling ---------------------------------------------------------------------
    scheduled_sampling_prob: float = unsupported(0.0, "[0, 1]")
    scheduled_sampling_method: Literal["parallel", "sequential"] = unsupported("parallel")
    scheduled_sampling_gold_mixin_prob: float = unsupported(0.5, "[0, 1]")
    scheduled_sampling_num_passes: int = unsupported(1, POSITIVE)
    scheduled_sampling_warmup_schedule: Literal["exp", "linear", "sigmoid"] = unsupported("exp")
    scheduled_sampling_warmup_steps: int = unsupported(50000, NON_NEGATIVE)

    # --- Several problems at once ---------------------------------------------------------------
    # As in T2T, only the class MultiProblem (t2t/multi_problem.py) reads these fields.
    multiproblem_mixing_schedule: Literal["constant", "exponential", "pretrain"] = training(
        "constant"
    )
    multiproblem_schedule_max_examples: float = training(1e7)
    multiproblem_schedule_threshold: float = training(0.5, "[0, 1]")
    multiproblem_per_task_threshold: str = training("", comma_separated=True)
    multiproblem_reweight_label_loss: bool = training(False)
    multiproblem_label_weight: float = training(0.5, "[0, 1]")
    multiproblem_target_eval_only: bool = training(False)
    multiproblem_vocab_size: int = ignored(-1, _FIRST_VOCABULARY)
    multiproblem_max_input_length: int = training(-1)
    multiproblem_max_target_length: int = training(-1)
    multiproblem_fixed_train_length: int = training(-1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerIgnoredFields:
    """Fields that Transformers do not read."""

    # --- Attention ------------------------------------------------------------------------------
    attention_variables_3d: bool = unsupported(False, architecture=True)
    gumbel_noise_weight: float = unsupported(0.0, NON_NEGATIVE)
    proximity_bias: bool = unsupported(False)
    causal_decoder_self_attention: bool = unsupported(True)

    # --- Transition -----------------------------------------------------------------------------
    moe_overhead_train: float = ignored(1.0, NO_EXPERTS)
    moe_overhead_eval: float = ignored(2.0, NO_EXPERTS)

    # --- Added to the embeddings ----------------------------------------------------------------
    position_features: str = unsupported("")

    # --- Evaluation -----------------------------------------------------------------------------
    nbr_decoder_problems: int = unsupported(1, POSITIVE)
    overload_eval_metric_name: str = unsupported("")


@dataclasses.dataclass(frozen=True, kw_only=True)
class UniversalTransformerIgnoredFields:
    """Fields that Universal Transformers do not read."""

    prepend_mode: PrependMode = unsupported("none", architecture=True)
    daisy_chain_variables: bool = ignored(False, "tf.distribute places the variables")
    num_hidden_layers: int = ignored(6, _LAYERS)
    num_encoder_layers: int = ignored(0, _LAYERS)
    num_decoder_layers: int = ignored(0, _LAYERS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LSTMIgnoredFields:
    """Fields that LSTM models do not read."""

    layer_preprocess_sequence: str = ignored("n", _NO_NORMS)
    layer_postprocess_sequence: str = ignored("da", _NO_NORMS)
    layer_prepostprocess_dropout: float = ignored(0.1, "an LSTM reads the field dropout instead")
    layer_prepostprocess_dropout_broadcast_dims: str = field(
        "", ignored=_NO_NORMS, comma_separated=True
    )
    norm_type: str = ignored("layer", _NO_NORMS)
    norm_epsilon: float = ignored(1e-6, _NO_NORMS)
    max_relative_position: int = ignored(0, _NO_SELF_ATTENTION)
    heads_share_relative_embedding: bool = ignored(False, _NO_SELF_ATTENTION)
    add_relative_to_values: bool = ignored(False, _NO_SELF_ATTENTION)
    relative_mask_future: bool = ignored(False, _NO_SELF_ATTENTION)
    moe_num_experts: int = ignored(64, OTHER_MODELS)
    moe_loss_coef: float = ignored(0.01, OTHER_MODELS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NeuralGPUIgnoredFields:
    """Fields that Neural GPUs do not read."""

    layer_preprocess_sequence: str = ignored("n", _ONLY_CONVOLUTIONS)
    layer_postprocess_sequence: str = ignored("da", _ONLY_CONVOLUTIONS)
    layer_prepostprocess_dropout: float = ignored(
        0.1, "a Neural GPU reads the field dropout instead"
    )
    layer_prepostprocess_dropout_broadcast_dims: str = field(
        "", ignored=_ONLY_CONVOLUTIONS, comma_separated=True
    )
    norm_type: str = ignored("layer", _ONLY_CONVOLUTIONS)
    norm_epsilon: float = ignored(1e-6, _ONLY_CONVOLUTIONS)
    max_relative_position: int = ignored(0, _ONLY_CONVOLUTIONS)
    heads_share_relative_embedding: bool = ignored(False, _ONLY_CONVOLUTIONS)
    add_relative_to_values: bool = ignored(False, _ONLY_CONVOLUTIONS)
    relative_mask_future: bool = ignored(False, _ONLY_CONVOLUTIONS)
    moe_num_experts: int = ignored(64, OTHER_MODELS)
    moe_loss_coef: float = ignored(0.01, OTHER_MODELS)
