"""Writes a SavedModel, and checks that it calls no Python functions."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

_PYTHON_OPERATIONS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")


def save(
    module: tf.Module, folder: str, signatures: Mapping[str, Callable[..., Mapping[str, tf.Tensor]]]
) -> None:
    """Write a SavedModel to a folder.

    Raises:
        ValueError: if the SavedModel calls Python functions, or a layer uses a variable or table
            that Keras does not track.
    """
    try:
        tf.saved_model.save(module, folder, signatures)
    except AssertionError as error:
        found = re.search(r"Tried to export a function which references an 'untracked'", str(error))
        if not found:
            raise
        raise ValueError(
            "Every variable of the model must be a weight of a Keras layer, and every lookup table "
            "must be an attribute of a Keras layer. Received: a layer with a resource that Keras "
            "does not track. In a layer of your own, make variables with self.add_weight."
        ) from error
    check(folder)


def tables(layers: Iterable[keras.layers.Layer]) -> list[Any]:
    """Return the lookup tables that are attributes of Keras layers.

    A SavedModel contains a table only if the saved module refers to the table. Tables may also be
    in lists, tuples and dicts.
    """
    resource = tf.saved_model.experimental.TrackableResource
    found = {id(one): one for layer in layers for one in _parts(vars(layer))}
    return [one for one in found.values() if isinstance(one, resource)]


def _parts(value):
    """Yield a value and all values inside its lists, tuples and dicts.

    `keras.tree.flatten` sorts the keys of a dict, so it cannot read a dict with keys such as None
    and "a".
    """
    yield value
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _parts(one)


def check(folder: str) -> None:
    """Raise `ValueError` if a SavedModel calls Python functions.

    Another process could load the SavedModel, but could not run it.
    """
    content = saved_model_pb2.SavedModel()
    with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
        content.ParseFromString(file.read())
    for meta_graph in content.meta_graphs:
        graph = meta_graph.graph_def
        for node in (*graph.node, *(n for f in graph.library.function for n in f.node_def)):
            if node.op in _PYTHON_OPERATIONS:
                raise ValueError(
                    "The model must not call tf.py_function or tf.numpy_function, because a "
                    f"SavedModel contains no Python code. Received: the operation {node.name}."
                )
