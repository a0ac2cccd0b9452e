"""Finds the variables that a traced function writes.

`optimizers.update.update_in_two_programs` runs the forward pass twice. If the forward pass writes
variables, it writes them twice. Therefore the function restores their values after the first run.
It uses this module to check that the forward pass writes no other variables.
"""

from typing import Any

import tensorflow as tf

_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape")
# TensorFlow sets this attribute of an operation that runs other functions, such as a loop. The
# value lists the indices of the variables that the operation only reads.
_READ_ONLY_INPUTS = "_read_only_resource_inputs"


def find(function: Any) -> list[tuple[tf.Tensor, str]]:
    """Return (handle, name) of each variable that a function may write.

    The result also includes a variable that an operation uses in an unknown way. If the function
    does not read a variable before it writes it, the name is "a variable".

    Args:
        function: result of `tf.function(…).get_concrete_function()`, a function without arguments.
    """
    names = {id(variable.handle): variable.name for variable in function.graph.variables}
    outer_by_inner = {
        id(inner): outer
        for inner, outer in zip(function.inputs, function.captured_inputs, strict=True)
    }
    written = {}
    for operation in function.graph.get_operations():
        if operation.type in _READS:
            continue
        try:
            only_read = operation.get_attr(_READ_ONLY_INPUTS)
        except ValueError:  # the operation has no such attribute
            only_read = ()
        for index, tensor in enumerate(operation.inputs):
            outer = outer_by_inner.get(id(tensor))
            if tensor.dtype == tf.resource and index not in only_read and outer is not None:
                written[id(outer)] = (outer, names.get(id(outer), "a variable"))
    return list(written.values())
