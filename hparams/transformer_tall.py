"""T2T's hparams sets for deep language models and for finetuning them.

T2T trains these sets on several problems at once, with a `MultiProblem`. The `multiproblem_…`
fields configure this training. With a single problem, neither T2T nor ut_keras reads these fields.
The sets `_uniencdec` are for summarization, with an encoder whose positions attend only backward.
"""

from ut_keras.hparams import transformer
from ut_keras.hparams.registry import derived, register_derived
from ut_keras.hparams.transformer import fit_for_tpu

transformer_tall = derived(
    transformer.transformer_base,
    batch_size=2048,
    hidden_size=768,
    filter_size=3072,
    num_hidden_layers=12,
    num_heads=12,
    label_smoothing=0.0,
    max_length=1024,
    eval_drop_long_sequences=True,
    multiproblem_mixing_schedule="pretrain",
    multiproblem_vocab_size=65536,
    clip_grad_norm=1.0,
)
transformer_tall_big = derived(transformer_tall, num_hidden_layers=18)

# --- Language models ------------------------------------------------------------------------------

transformer_tall_pretrain_lm = derived(
    transformer_tall,
    learning_rate_constant=2e-4,
    learning_rate_schedule="linear_warmup*constant*cosdecay",
    learning_rate_decay_steps=5_000_000,
    optimizer="adam_w",
    optimizer_adam_beta2=0.999,
    optimizer_adam_epsilon=1e-8,
    multiproblem_schedule_max_examples=5e8,
    weight_decay=0.01 * 2e-4,
)
# T2T trains this set on TPUs, where a batch_size of 8 means 8 examples. In ut_keras, it means 8
# tokens, so a batch usually has one example.
transformer_tall_pretrain_lm_tpu_adafactor = derived(
    transformer_tall_pretrain_lm,
    fit_for_tpu,
    max_length=1024,
    batch_size=8,
)
transformer_tall_pretrain_lm_tpu_adafactor_large = derived(
    transformer_tall_pretrain_lm_tpu_adafactor,
    hidden_size=1024,
    num_heads=16,
    filter_size=32768,
    batch_size=4,
    multiproblem_mixing_schedule="constant",
    multiproblem_per_task_threshold="320,80,160,1,80,160,2,20,10,5",
)
transformer_tall_pretrain_lm_tpu = derived(
    transformer_tall_pretrain_lm_tpu_adafactor,
    learning_rate_schedule="linear_warmup * constant * cosdecay",
    optimizer="adam_w",
)

# --- Finetuning -----------------------------------------------------------------------------------

# This set is for text classification.
transformer_tall_finetune_textclass = derived(
    transformer_tall,
    learning_rate_constant=6.25e-5,
    learning_rate_schedule="linear_warmup*constant*linear_decay",
    learning_rate_warmup_steps=50,
    learning_rate_decay_steps=25000,
    multiproblem_schedule_max_examples=0,
    multiproblem_target_eval_only=True,
    multiproblem_reweight_label_loss=True,
    multiproblem_label_weight=0.95,
)

_TRAIN = {
    "learning_rate_schedule": "linear_warmup*constant*cosdecay",
    "learning_rate_constant": 2e-4,
    "learning_rate_decay_steps": 150_000,
    "optimizer": "true_adam",
}
_FINETUNE = {
    **_TRAIN,
    "learning_rate_constant": 5e-5,
    "learning_rate_decay_steps": 80_000,
    "learning_rate_warmup_steps": 100,
}
# Fields with which text and summary form one sequence.
_TIED = {
    "multiproblem_max_input_length": 750,
    "multiproblem_max_target_length": 100,
    "multiproblem_schedule_max_examples": 0,
    "multiproblem_target_eval_only": True,
    "multiproblem_reweight_label_loss": True,
    "multiproblem_label_weight": 1.0,
}
_UNIENCDEC = {
    "max_input_seq_length": 750,
    "max_target_seq_length": 100,
    "unidirectional_encoder": True,
}
transformer_tall_train_tied = derived(transformer_tall, **_TRAIN, **_TIED)
transformer_tall_finetune_tied = derived(transformer_tall, **_FINETUNE, **_TIED)
transformer_tall_train_uniencdec = derived(transformer_tall, **_TRAIN, **_UNIENCDEC)
transformer_tall_finetune_uniencdec = derived(transformer_tall, **_FINETUNE, **_UNIENCDEC)

register_derived(globals())
