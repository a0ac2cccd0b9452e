"""The Keras optimizer that the hparams select.

    optimizer = optimizers.get(hp, train_steps=250000)
    optimizer.apply(gradients, model.trainable_variables)

`optimizer.Optimizer` describes what all optimizers do with the gradients before the update.
"""

from ut_keras.process import silent_tensorflow  # noqa: F401  (before the imports of TensorFlow)

# isort: split
import logging
from typing import Any

from ut_keras.hparam_schema import BasicHParams, HParamError, older_versions
from ut_keras.hparam_schema.basic import warmup_note
from ut_keras.optimizers import learning_rate as learning_rate_lib
from ut_keras.optimizers.adafactor import Adafactor
from ut_keras.optimizers.adam import Adam, AdamW, MultistepAdam
from ut_keras.optimizers.gradient_descent import Adagrad, GradientDescent, Momentum, RMSProp
from ut_keras.optimizers.optimizer import Optimizer


def get(
    hp: BasicHParams, train_steps: int | None = None, learning_rate: float | None = None
) -> Optimizer:
    """Return the Keras optimizer of `hp.optimizer`, with the hparams' learning rate.

        hp = hparams.get("transformer_tiny")
        model.compile(optimizer=optimizers.get(hp, learning_rate=0.001))

    Args:
        hp: the hparams.
        train_steps: int or None. Number of updates in the run. Some learning rate schedules require
            it.
        learning_rate: float. Optional. A constant learning rate, which replaces the schedule of the
            hparams. Callbacks of `fit` may change it.

    Raises:
        HParamError: if the hparams contradict each other or are not supported.
    """
    hp.check_supported()
    cls, own = _OPTIMIZERS[hp.optimizer]
    steps = hp.optimizer_multistep_accumulate_steps
    if (cls is MultistepAdam) != bool(steps):
        raise HParamError(
            "optimizer_multistep_accumulate_steps must be at least 1 for optimizer="
            f"'multistep_adam' and 0 for other optimizers. Received: optimizer={hp.optimizer!r}, "
            f"optimizer_multistep_accumulate_steps={steps}."
        )
    if learning_rate is None:
        notes = [older_versions.adam_note(hp.optimizer, hp.learning_rate_schedule)]
        if train_steps is not None:
            notes.append(warmup_note(hp, train_steps))
        for note in filter(None, notes):
            logging.getLogger("ut_keras").warning("%s", note)
        learning_rate = learning_rate_lib.from_hparams(hp, train_steps)
    return cls(
        learning_rate,
        clip_grad_norm=hp.clip_grad_norm,
        l2_rate=hp.weight_decay,
        grad_noise_scale=hp.grad_noise_scale,
        zero_grads=hp.optimizer_zero_grads,
        **{argument: getattr(hp, field) for argument, field in own.items()},
    )


# Each dict maps the arguments of an optimizer class to the hparams that set these arguments.
_ADAM = {
    "beta_1": "optimizer_adam_beta1",
    "beta_2": "optimizer_adam_beta2",
    "epsilon": "optimizer_adam_epsilon",
}
# As in T2T, weight_decay acts twice: as an L2 loss, and as AdamW's decay of the weights.
_ADAM_W = {"decay": "weight_decay", **_ADAM}
_MULTISTEP = {"accumulate_steps": "optimizer_multistep_accumulate_steps", **_ADAM}
_ADAFACTOR = {
    "beta_1": "optimizer_adafactor_beta1",
    "decay_type": "optimizer_adafactor_decay_type",
    "beta_2": "optimizer_adafactor_beta2",
    "memory_exponent": "optimizer_adafactor_memory_exponent",
    "clipping_threshold": "optimizer_adafactor_clipping_threshold",
    "factored": "optimizer_adafactor_factored",
    "multiply_by_parameter_scale": "optimizer_adafactor_multiply_by_parameter_scale",
    "table_shards": "symbol_modality_num_shards",
}
_MOMENTUM = {
    "momentum": "optimizer_momentum_momentum",
    "nesterov": "optimizer_momentum_nesterov",
}
# The class and the arguments for each name of an optimizer. The names are T2T's names, including
# the CamelCase names of old hparams sets. T2T's "adam" is LazyAdam, which does not update the
# moments of unused embedding rows. However, T2T's embedding has gradients for all rows, so LazyAdam
# and Adam give the same result.
_OPTIMIZERS: dict[str, Any] = {
    **dict.fromkeys(("adam", "true_adam", "Adam", "TrueAdam"), (Adam, _ADAM)),
    **dict.fromkeys(("adam_w", "AdamW"), (AdamW, _ADAM_W)),
    **dict.fromkeys(("multistep_adam", "MultistepAdam"), (MultistepAdam, _MULTISTEP)),
    **dict.fromkeys(("adafactor", "Adafactor"), (Adafactor, _ADAFACTOR)),
    **dict.fromkeys(("momentum", "Momentum"), (Momentum, _MOMENTUM)),
    **dict.fromkeys(("sgd", "SGD"), (GradientDescent, {})),
    **dict.fromkeys(("adagrad", "Adagrad"), (Adagrad, {})),
    **dict.fromkeys(("rms_prop", "RMSProp"), (RMSProp, {})),
}
