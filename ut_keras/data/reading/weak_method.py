"""A method for `tf.numpy_function`, whose object may be freed.

TensorFlow keeps the Python function of an operation as long as the outermost graph, which is that
of the process: for good, with all that the function holds. So it gets one that holds nothing.
Whoever makes the operation keeps the object; a `tf.data.Dataset` does so for what its functions
refer to.
"""

import weakref
from collections.abc import Callable
from typing import Any


def of(method: Any) -> Callable[..., Any]:
    """Returns a function that calls a bound method, and does not keep its object."""
    reference: Any = weakref.WeakMethod(method)

    def call(*arguments):
        return reference()(*arguments)

    return call
