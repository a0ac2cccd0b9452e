"""The optimizer that the hparams name, as a Keras optimizer.

    optimizer = optimizers.get(hp, train_steps=250000)
    optimizer.apply(gradients, model.trainable_variables)

`optimizer.Optimizer` says what all of them do before they update.

To add an optimizer, subclass `Optimizer` and register a function (hp, schedule) -> optimizer.
"""

from ut_keras import registry
from ut_keras.hparam import BasicHParams, HParamError
from ut_keras.optimizers import gradient_descent
from ut_keras.optimizers import learning_rate as learning_rate_lib
from ut_keras.optimizers.adafactor import Adafactor
from ut_keras.optimizers.adam import Adam, AdamW, MultistepAdam
from ut_keras.optimizers.optimizer import LearningRate, Optimizer

_OPTIMIZERS = registry.Registry("optimizer")


def get(
    hp: BasicHParams, train_steps: int | None = None, learning_rate: float | None = None
) -> Optimizer:
    """Returns the Keras optimizer of `hp.optimizer`, with the hparams' learning rate schedule.

    Args:
        hp: `BasicHParams`.
        train_steps: int or None. Length of the run, which some schedules need.
        learning_rate: float, instead of the schedule; callbacks of `fit` may set it. Optional.

    Raises:
        UnknownNameError: if there is no such optimizer.
        HParamError: if the hparams contradict each other or are not supported.
    """
    hp.check_supported()
    make = _OPTIMIZERS.get(hp.optimizer)
    steps = hp.optimizer_multistep_accumulate_steps
    if (make is make_multistep_adam) != bool(steps):
        raise HParamError(
            "optimizer_multistep_accumulate_steps goes with the optimizer 'multistep_adam', and "
            f"must be at least 1 there and 0 elsewhere. Received: optimizer={hp.optimizer!r}, "
            f"optimizer_multistep_accumulate_steps={steps}."
        )
    if learning_rate is None:
        learning_rate = learning_rate_lib.from_hparams(hp, train_steps)
    return make(hp, learning_rate)


def names() -> list[str]:
    """Returns the names of all optimizers, sorted."""
    return _OPTIMIZERS.names()


def _register(*names):
    """Registers under several names: T2T takes its own, and CamelCase for the sake of old sets."""

    def register(make):
        for name in names:
            _OPTIMIZERS.add(name, make)
        return make

    return register


def _gradients(hp):
    """What holds for every optimizer."""
    return {
        "clip_grad_norm": hp.clip_grad_norm,
        "l2_rate": hp.weight_decay,
        "grad_noise_scale": hp.grad_noise_scale,
        "zero_grads": hp.optimizer_zero_grads,
    }


def _adam(hp):
    return {
        "beta_1": hp.optimizer_adam_beta1,
        "beta_2": hp.optimizer_adam_beta2,
        "epsilon": hp.optimizer_adam_epsilon,
        **_gradients(hp),
    }


# T2T's "adam" is LazyAdam, which leaves the moments of embedding rows that a batch does not use
# alone. T2T's embedding hands it gradients of all rows, and both names mean the same.
@_register("adam", "true_adam", "Adam", "TrueAdam")
def make_adam(hp: BasicHParams, schedule: LearningRate) -> Optimizer:
    return Adam(schedule, **_adam(hp))


@_register("adam_w", "AdamW")
def make_adam_w(hp: BasicHParams, schedule: LearningRate) -> Optimizer:
    # As in T2T weight_decay does both: it is an L2 loss, and what the weights shrink by.
    return AdamW(schedule, hp.weight_decay, **_adam(hp))


@_register("multistep_adam", "MultistepAdam")
def make_multistep_adam(hp: BasicHParams, schedule: LearningRate) -> Optimizer:
    return MultistepAdam(schedule, hp.optimizer_multistep_accumulate_steps, **_adam(hp))


@_register("adafactor", "Adafactor")
def make_adafactor(hp: BasicHParams, schedule: LearningRate) -> Optimizer:
    return Adafactor(
        schedule,
        beta_1=hp.optimizer_adafactor_beta1,
        decay_type=hp.optimizer_adafactor_decay_type,
        beta_2=hp.optimizer_adafactor_beta2,
        memory_exponent=hp.optimizer_adafactor_memory_exponent,
        clipping_threshold=hp.optimizer_adafactor_clipping_threshold,
        factored=hp.optimizer_adafactor_factored,
        multiply_by_parameter_scale=hp.optimizer_adafactor_multiply_by_parameter_scale,
        table_shards=hp.symbol_modality_num_shards,
        **_gradients(hp),
    )


@_register("momentum", "Momentum")
def make_momentum(hp: BasicHParams, schedule: LearningRate) -> Optimizer:
    return gradient_descent.Momentum(
        schedule,
        momentum=hp.optimizer_momentum_momentum,
        nesterov=hp.optimizer_momentum_nesterov,
        **_gradients(hp),
    )


@_register("sgd", "SGD")
def make_sgd(hp: BasicHParams, schedule: LearningRate) -> Optimizer:
    return gradient_descent.GradientDescent(schedule, **_gradients(hp))


@_register("adagrad", "Adagrad")
def make_adagrad(hp: BasicHParams, schedule: LearningRate) -> Optimizer:
    return gradient_descent.Adagrad(schedule, **_gradients(hp))


@_register("rms_prop", "RMSProp")
def make_rms_prop(hp: BasicHParams, schedule: LearningRate) -> Optimizer:
    return gradient_descent.RMSProp(schedule, **_gradients(hp))
