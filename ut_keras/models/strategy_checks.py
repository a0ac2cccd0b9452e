"""Checks of distribution strategies before Keras trains or evaluates a model."""

from typing import Any

import tensorflow as tf

from ut_keras.optimizers.optimizer import weight_optimizers


def check_method(model: Any, method: str) -> None:
    """Raise ValueError if Keras 3 cannot combine the results of the replicas.

    Args:
        model: keras.Model.
        method: str, the method that the caller calls, such as "fit".
    """
    strategy = model.distribute_strategy
    replicas = strategy.num_replicas_in_sync
    if replicas > 1 and isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        raise ValueError(
            f"{method} must not be called under MultiWorkerMirroredStrategy: Keras 3 does not "
            f"support it (keras issue 20585). Received: {replicas} replicas. To train on "
            "several workers, use ut-trainer (docs/clusters.md)."
        )
    if replicas > 1 and isinstance(strategy, tf.distribute.experimental.CentralStorageStrategy):
        raise ValueError(
            f"{method} must not be called under CentralStorageStrategy: Keras 3 computes a "
            f"wrong loss and wrong metrics there. Received: {replicas} replicas. "
            "Use tf.distribute.MirroredStrategy."
        )


def check_options(model: Any) -> None:
    """Raise ValueError for options that Keras does not support on several replicas.

    Keras implements these options with branches and loops that fail on several replicas.
    """
    replicas = model.distribute_strategy.num_replicas_in_sync
    optimizers = weight_optimizers(model.optimizer)
    for owner, name, least in (
        (model, "steps_per_execution", 2),
        *((optimizer, "gradient_accumulation_steps", 1) for optimizer in optimizers),
        *((optimizer, "ema_overwrite_frequency", 1) for optimizer in optimizers),
    ):
        value = getattr(owner, name, None) or 0
        if replicas > 1 and value >= least:
            raise ValueError(
                f"{name} must not be set for training on several replicas: Keras does not "
                f"support it there. Received: {value}, and {replicas} replicas. To accumulate "
                "gradients, use optimizers.MultistepAdam."
            )
