"""Remove the train function of a model if the user has changed what it contains.

TensorFlow traces an update once: the operations of the learning-rate schedule, and the updates of
the variables that are trainable at that time. Keras would therefore ignore later changes.
"""

import operator
import weakref

import keras

from ut_keras.ops import private_api
from ut_keras.optimizers.optimizer import weight_optimizers

_NAME = "_traced_update"


def forget_if_outdated(model: keras.Model) -> None:
    """Remove the train function if it contains another schedule or other variables.

    - If the user has assigned another learning rate or schedule to `optimizer.learning_rate`, the
      next update uses it.
    - If the user has frozen a layer, the next update does not change the layer. If the user has
      unfrozen a layer, the next update trains it. If the layer was frozen when the optimizer was
      built, the optimizer raises an error.

    Args:
        model: a compiled model whose train function Keras is about to make or reuse.
    """
    rates = [private_api.rate_or_schedule(one) for one in weight_optimizers(model.optimizer)]
    variables = [id(variable) for variable in model.trainable_variables]
    if _NAME in vars(model):
        references, traced_variables = vars(model)[_NAME]
        traced_rates = [reference() for reference in references]
        has_other_rates = len(rates) != len(traced_rates) or any(
            map(operator.is_not, rates, traced_rates)
        )
        if has_other_rates or variables != traced_variables:
            model.train_function = None
    # This assignment bypasses `__setattr__`, so Keras does not track the lists.
    vars(model)[_NAME] = [weakref.ref(rate) for rate in rates], variables
