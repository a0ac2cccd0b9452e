"""One update of a model from a batch, which `fit` and the trainer use.

    done = update.update(model, optimizer, lambda: (output, terms))

The loss of a batch is the sum of its `LossTerm`s. Each term is a numerator divided by a
denominator, such as the number of target tokens. First, `update` sums the denominators over all
replicas. Then each replica divides its own numerators by these sums. Therefore the sum of the
replicas' gradients is the gradient of the complete batch, even if the replicas have different
numbers of tokens.
"""

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.errors import UsageError
from ut_keras.metrics import losses
from ut_keras.ops import written_variables
from ut_keras.ops.loss_term import LossTerm
from ut_keras.optimizers.optimizer import dense_gradient


class Update(NamedTuple):
    """The results of an update in one replica."""

    output: Any  # `models.output.ModelOutput` of the forward pass in training mode
    losses: dict[str, tf.Tensor]  # from the name of a loss to this replica's share, a scalar


ForwardAndTerms = Callable[[], tuple[Any, Mapping[str, list[LossTerm]]]]


def update(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    forward_and_terms: ForwardAndTerms,
    fills_gradients: bool = False,
) -> Update:
    """Compute the loss and its gradients, and apply the gradients.

    Args:
        model: keras.Model, whose trainable variables the optimizer updates. If the model has no
            trainable variables, the function warns and changes nothing. Keras warns about variables
            without a gradient, except for the model's `unread_weights`.
        optimizer: keras optimizer. It sums the gradients over the replicas.
        forward_and_terms: function that runs the forward pass. It returns (output of the model,
            loss terms of this replica). The loss terms are a dict from the name of a loss to its
            terms.
        fills_gradients: bool. Whether a variable that the loss does not depend on gets the gradient
            0. If False, the optimizer skips such a variable.

    Returns:
        `Update`.
    """
    result, gradients = compute(
        model, optimizer, forward_and_terms, losses.of_all_replicas, fills_gradients
    )
    apply(model, optimizer, gradients)
    return result


def update_in_two_programs(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    forward_and_terms: ForwardAndTerms,
    fills_gradients: bool = False,
    more_states: Sequence[Any] = (),
) -> Update:
    """Compute the same as `update`, with forward pass and gradients under XLA.

    XLA compiles programs for one device. Therefore the sums over the replicas and the optimizer
    stay outside of the programs, and each replica has two programs:

    1. The first program computes the denominators of the loss terms. They usually depend only on
       the batch, so XLA removes the rest of the forward pass from this program.
    2. The second program gets the sums of the denominators over all replicas. It computes the loss
       and the gradients.

    Args:
        model, optimizer, fills_gradients: as in `update`.
        forward_and_terms: as in `update`, but the output is a nest of tensors. It should be small,
            because it must exist in memory after the second program.
        more_states: variables that `forward_and_terms` may also change, such as those of metrics.

    Raises:
        UsageError: if the forward pass changes a variable that cannot be restored between the two
            programs, or if it sums over the replicas.
    """
    states = [*model.non_trainable_variables, *more_states]
    _check_states(states)

    def denominators():
        before = [tf.convert_to_tensor(state.value) for state in states]
        _, terms = forward_and_terms()
        found = {name: [term.denominator for term in terms[name]] for name in terms}
        # The second program must start from the same states, such as seeds and moving averages.
        for state, value in zip(states, before, strict=True):
            state.assign(value)
        return found

    summed = losses.sum_over_replicas(_first_program(denominators, states)())

    def with_sums(terms):
        return losses.with_denominators(terms, summed)

    def loss_and_gradients():
        return compute(model, optimizer, forward_and_terms, with_sums, fills_gradients)

    result, gradients = _compiled(loss_and_gradients)()
    # If XLA cannot compile the second program, the optimizer must not count an update.
    with tf.control_dependencies([g for g in gradients if g is not None]):
        apply(model, optimizer, gradients)
    return result


def _check_states(states):
    """Raise `UsageError` if an assignment to a state would be a sum over the replicas."""
    for state in states:
        if state.aggregation != "none" and state.synchronization != "on_read":
            raise UsageError(
                "With XLA on several replicas, a non-trainable weight must have aggregation='none' "
                "or synchronization='on_read', because XLA compiles programs for one device. "
                f"Received: {state.path} with aggregation={state.aggregation!r} and "
                f"synchronization={state.synchronization!r}."
            )


def _first_program(denominators, states):
    """Trace the first program, and check that none of its effects would happen twice.

    Args:
        denominators: function that computes the denominators and then restores the states.
        states: list of keras.Variable.
    """
    try:
        program = _compiled(denominators).get_concrete_function()
    except RuntimeError as error:
        if "merge_call" not in f"{error}":  # the name of a sum over replicas in TensorFlow
            raise
        raise UsageError(f"{_NO_SUMS} Received: a layer with such a sum.") from error
    for operation in program.graph.get_operations():
        if operation.type.startswith("Collective"):
            raise UsageError(f"{_NO_SUMS} Received: {operation.type}.")
    restored = {id(state.value.handle) for state in states}
    for handle, name in written_variables.find(program):
        if id(handle) not in restored:
            raise UsageError(
                "With XLA on several replicas, a variable that the forward pass changes must be a "
                "non-trainable keras.Variable, because the forward pass runs twice. "
                f"Received: {name}."
            )
    return program


_NO_SUMS = (
    "With XLA on several replicas, the forward pass must not contain sums over the replicas, "
    "because XLA compiles programs for one device."
)


def _compiled(function):
    """Return a function that XLA compiles.

    `functools.partial` prevents a warning of TensorFlow about retracing, see `ops.compiled`.
    """
    return tf.function(functools.partial(function), jit_compile=True, autograph=False)


def compute(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    forward_and_terms: ForwardAndTerms,
    sum_denominators: Callable[[Mapping[str, list[LossTerm]]], Mapping[str, list[LossTerm]]],
    fills_gradients: bool,
) -> tuple[Update, list[Any]]:
    """Compute the loss and its gradients.

    Args:
        sum_denominators: function that replaces the denominators by their sums over all replicas.
        model, optimizer, forward_and_terms, fills_gradients: as in `update`.

    Returns:
        (`Update`, gradients). The list has a gradient or None for each trainable variable.
    """
    with tf.GradientTape() as tape:
        output, terms = forward_and_terms()
        shares = {
            name: tf.add_n([term.value() for term in parts])
            for name, parts in sum_denominators(terms).items()
        }
        loss: Any = optimizer.scale_loss(tf.add_n(list(shares.values())))
    # This line reads the variables after the forward pass, which may build the user's layers.
    variables = model.trainable_variables
    gradients = tape.gradient(loss, variables) if variables else []
    unread = {variable.path for variable in getattr(model, "unread_weights", ())}
    gradients = [
        tf.zeros(variable.shape, variable.dtype)
        if gradient is None and (fills_gradients or variable.path in unread)
        # A Keras embedding in a user's layer has a gradient with a row for each token. Keras's
        # optimizers would square and clip these rows before adding them.
        else dense_gradient(gradient, variable)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]
    return Update(output, shares), gradients


def apply(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, gradients: Sequence[Any]
) -> None:
    """Apply the gradients of `compute`."""
    if variables := model.trainable_variables:
        optimizer.apply(gradients, variables)
    else:
        warnings.warn("The model does not have any trainable weights.", stacklevel=3)  # as in Keras
