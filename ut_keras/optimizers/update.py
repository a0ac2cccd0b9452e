"""One update of a model from a batch, which `fit` and the trainer use.

    done = update.update(model, optimizer, lambda: (output, terms))

The loss of a batch is the sum of its `LossTerm`s. Each term is a numerator divided by a
denominator, such as the number of target tokens. First, `update` sums the denominators over all
replicas. Then each replica divides its own numerators by these sums. Therefore the sum of the
replicas' gradients is the gradient of the complete batch, even if the replicas have different
numbers of tokens.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.metrics import losses
from ut_keras.ops.loss_term import LossTerm


class Update(NamedTuple):
    """The results of an update in one replica."""

    output: Any  # `models.output.ModelOutput` of the forward pass in training mode
    losses: dict[str, tf.Tensor]  # from the name of a loss to this replica's share, a scalar


def update(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    forward_and_terms: Callable[[], tuple[Any, Mapping[str, list[LossTerm]]]],
    fills_gradients: bool = False,
) -> Update:
    """Compute the loss and its gradients, and apply the gradients.

    Args:
        model: keras.Model, whose trainable variables the optimizer updates. If the model has no
            trainable variables, the function warns and changes nothing. Keras warns about variables
            without a gradient, except for the model's `unread_weights`.
        optimizer: keras optimizer. It sums the gradients over the replicas.
        forward_and_terms: function that runs the forward pass. It returns the output of the model
            and the loss terms of this replica, as a dict from the name of a loss to its terms.
        fills_gradients: bool. Whether a variable that the loss does not depend on gets the gradient
            0. If False, the optimizer skips such a variable.

    Returns:
        `Update`.
    """
    with tf.GradientTape() as tape:
        output, terms = forward_and_terms()
        shares = {
            name: tf.add_n([term.value() for term in parts])
            for name, parts in losses.of_all_replicas(terms).items()
        }
        loss: Any = optimizer.scale_loss(tf.add_n(list(shares.values())))
    # This line reads the variables after the forward pass, which may build the user's layers.
    if variables := model.trainable_variables:
        gradients = tape.gradient(loss, variables)
        unread = {variable.path for variable in getattr(model, "unread_weights", ())}
        gradients = [
            tf.zeros(variable.shape, variable.dtype)
            if gradient is None and (fills_gradients or variable.path in unread)
            else gradient
            for gradient, variable in zip(gradients, variables, strict=True)
        ]
        optimizer.apply(gradients, variables)
    else:
        warnings.warn("The model does not have any trainable weights.", stacklevel=2)  # as in Keras
    return Update(output, shares)
