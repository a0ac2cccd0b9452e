"""Gradients that are written out, and freed with the graph that they belong to.

    @custom_gradient.wrap
    def square(x):
        return x * x, lambda upstream: 2 * x * upstream

It is `tf.custom_gradient`, without what that leaves behind: it files the gradient of each call in a
graph in a list of the process, under a name of its own, for good. The gradient holds tensors, they
hold the graph, and so no graph with a layer norm in it was ever freed: 13 MB for each search of a
tiny model. Here the graph holds the gradient, and the list no more than a weak reference.

A SavedModel keeps such gradients as functions, each of which is filled into that list again by
whoever loads it: 17 functions and 88 MB in an export of that model. So an export leaves them out,
and has TensorFlow's gradients, of the same value:

    with custom_gradient.disabled():
        tf.saved_model.save(module, directory, signatures)
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
    """Decorator, as `tf.custom_gradient`: for a function of tensors to (results, gradient)."""
    with_gradient = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(*tensors):
        if _DISABLED.get():
            return function(*tensors)[0]
        results = with_gradient(*tensors)
        if not tf.executing_eagerly():
            _store_in_graph(tf.nest.flatten(results)[0].op)
        return results

    return call


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Within it, what is traced has TensorFlow's gradients instead."""
    before = _DISABLED.set(True)
    try:
        yield
    finally:
        _DISABLED.reset(before)


def _store_in_graph(op):
    """Lets the graph of an operation hold its gradient, and no one else."""
    graph: Any = weakref.ref(op.graph)
    name = op.get_attr("_gradient_op_type").decode()
    entries = private_api.gradient_registry()
    gradients = getattr(op.graph, "_custom_gradients", {})
    op.graph._custom_gradients = gradients
    gradients[name] = entries[name]["type"]
    entries[name]["type"] = lambda *arguments: graph()._custom_gradients[name](*arguments)
    weakref.finalize(op.graph, entries.pop, name, None).atexit = False
