"""Call a method through a weak reference."""

import weakref
from collections.abc import Callable
from typing import Any


def weak_call(method: Any) -> Callable[..., Any]:
    """Return a function that calls a bound method through a weak reference.

    This function is for `tf.numpy_function`. TensorFlow keeps the Python function of an operation
    as long as the outermost graph exists, often until the process ends. Every object to which the
    function refers would exist as long as the graph. With the weak reference, the code that makes
    the operation must keep the bound object alive. A `tf.data.Dataset` keeps the objects to which
    its functions refer.
    """
    reference: Any = weakref.WeakMethod(method)

    return lambda *arguments: reference()(*arguments)
