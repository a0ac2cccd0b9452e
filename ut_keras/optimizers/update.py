"""One update of a model: the way from a batch to new weights, for `fit` and for the trainer alike.

    done = update.update(model, optimizer, lambda: (output, terms))

The loss of a batch is, for every `LossTerm`, its numerator over its denominator. The denominators
(for example the number of target tokens) are summed over all replicas first, and each replica
divides its own numerators by that sum. So the sum of the replicas' gradients is the gradient of the
complete batch, however unequal the replicas' shares of the tokens are.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.metrics import losses
from ut_keras.ops.loss_term import LossTerm


class Update(NamedTuple):
    """What an update has computed in one replica."""

    output: Any  # `models.output.ModelOutput` of the forward pass in training mode
    losses: dict[str, tf.Tensor]  # from the name of a loss to this replica's share, a scalar


def update(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    forward_and_terms: Callable[[], tuple[Any, Mapping[str, list[LossTerm]]]],
) -> Update:
    """Compute the loss and its gradients, and apply them.

    Args:
        model: keras.Model, whose trainable variables are updated. A model without any is left
            unchanged, with a warning.
        optimizer: keras optimizer. It sums the gradients over the replicas.
        forward_and_terms: function that runs the forward pass. It returns the output and the loss
            terms by name, those of this replica.

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
    # Read now: the forward pass builds layers of users that are not built before.
    if variables := model.trainable_variables:
        optimizer.apply(tape.gradient(loss, variables), variables)
    else:
        warnings.warn("The model does not have any trainable weights.", stacklevel=2)  # as Keras
    return Update(output, shares)
