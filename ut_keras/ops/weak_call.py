"""Call a method through a weak reference."""

import weakref
from collections.abc import Callable
from typing import Any


def weak_call(method: Any) -> Callable[..., Any]:
    """Return a function that calls a bound method through a weak reference.

    This function is for `tf.numpy_function`. TensorFlow keeps the Python function of an operation
    as long as the outermost graph exists, often until the process ends. TensorFlow would also keep
    every object to which the function refers. With the weak reference, it does not keep the object
    of the method. Therefore the caller must keep this object as long as the operation is used. A
    `tf.data.Dataset` keeps the objects to which its functions refer.
    """
    reference: Any = weakref.WeakMethod(method)

    return lambda *arguments: reference()(*arguments)
