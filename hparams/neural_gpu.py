"""T2T's set for the Neural GPU."""

from ut_keras.hparam_schema.neural_gpu_hparams import NeuralGPUHParams
from ut_keras.hparams.lstm import BASIC
from ut_keras.hparams.registry import derived, register_derived

neural_gpu = derived(
    derived(NeuralGPUHParams, **BASIC),
    daisy_chain_variables=False,
    batch_size=1024,
    num_hidden_layers=1,
    hidden_size=256,
    dropout=0.1,
    label_smoothing=0.0,
    clip_grad_norm=10.0,
    kernel_height=3,
    kernel_width=1,
    learning_rate_decay_scheme="exp",
    learning_rate=0.02,
    learning_rate_warmup_steps=3000,
    initializer_gain=1.0,
    weight_decay=0.0,
    optimizer_adam_epsilon=1e-6,
    optimizer_adam_beta1=0.85,
    optimizer_adam_beta2=0.997,
)

register_derived(globals())
