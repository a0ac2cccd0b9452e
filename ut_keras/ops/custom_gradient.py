"""Custom gradients that are freed together with their graph.

    @custom_gradient.wrap
    def square(x):
        return x * x, lambda upstream: 2 * x * upstream

`tf.custom_gradient` leaks memory. For each call in a graph, it adds the gradient function to a
registry of the process and never removes it. The gradient function refers to tensors, and these
tensors refer to the graph. Therefore Python never frees the graph. For example, each search of a
tiny model would leak 13 MB, because layer normalization has a custom gradient. With `wrap`, the
graph owns the gradient function, and the registry has only a weak reference to the graph.

A SavedModel stores custom gradients as functions. When a process loads a SavedModel, TensorFlow
adds these functions to the registry again (17 functions and 88 MB for the same tiny model).
Therefore exports use TensorFlow's automatic gradients, which have the same values:

    with custom_gradient.disabled():
        tf.saved_model.save(module, directory, signatures)

`disabled` sets a context variable. An argument would have to pass through the `call` of every
layer, and a user's layer between two layers of ut_keras would not pass it on.
"""

import contextlib
import contextvars
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from ut_keras.ops import private_api

_DISABLED = contextvars.ContextVar("disabled", default=False)


def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function like `tf.custom_gradient`.

    In the gradient function, `private_api.is_compiled_by_xla` has the same result as in `function`.
    This matters for dropout. The gradient function must sample the same mask as `function`, but the
    masks under XLA are different from the masks without XLA.

    Args:
        function: function from tensors to (results, gradient function).
    """

    def forward(*tensors):
        results, gradient = function(*tensors)
        return results, _in_form(gradient, private_api.is_compiled_by_xla())

    with_gradient = tf.custom_gradient(forward)

    @functools.wraps(function)
    def call(*tensors):
        if _DISABLED.get():
            return function(*tensors)[0]
        results = with_gradient(*tensors)
        if not tf.executing_eagerly():
            _store_in_graph(tf.nest.flatten(results)[0].op)
        return results

    return call


def _in_form(gradient, is_compiled):
    """Return a function that runs `gradient` with the given `is_compiled_by_xla`."""

    def gradient_in_form(*upstream):
        with private_api.compiled_by_xla(is_compiled):
            return gradient(*upstream)

    return gradient_in_form


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Use TensorFlow's automatic gradients in the functions traced in this context."""
    before = _DISABLED.set(True)
    try:
        yield
    finally:
        _DISABLED.reset(before)


def _store_in_graph(op):
    """Move the gradient function of an operation from the registry to its graph."""
    graph: Any = weakref.ref(op.graph)
    name = op.get_attr("_gradient_op_type").decode()
    entries = private_api.gradient_registry()
    gradients = getattr(op.graph, "_custom_gradients", {})
    op.graph._custom_gradients = gradients
    gradients[name] = entries[name]["type"]
    entries[name]["type"] = lambda *arguments: graph()._custom_gradients[name](*arguments)
    remove_entry = weakref.finalize(op.graph, entries.pop, name, None)
    remove_entry.atexit = False  # at the end of the process, the registry needs no cleaning
