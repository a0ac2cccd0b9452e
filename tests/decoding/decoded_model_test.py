"""Every model has the members that decoding reads. Decoding reads no other members."""

import ast
import importlib
import inspect
import os

import pytest

from ut_keras import decoding, models
from ut_keras.decoding import decoded_model

FOLDER = os.path.dirname(decoding.__file__)
PROTOCOLS = (
    decoded_model.DecodedModel,
    decoded_model.CachedModel,
    decoded_model.RecurrentModel,
)


def _members(*protocols):
    """Return {name: member} of the protocols and their base protocols."""
    found = {}
    for protocol in protocols:
        for base in protocol.__mro__:
            if base in PROTOCOLS:
                members = {name: x for name, x in vars(base).items() if not name.startswith("_")}
                found |= members
    return found


def _classes():
    for name in models.names():
        entry = models._CLASSES.get(name)
        if isinstance(entry, str):
            module, name = entry.split(":")
            entry = getattr(importlib.import_module(module), name)
        yield entry


def _parameters(function):
    """Return (name, kind, default) of each parameter of a function."""
    parameters = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]


@pytest.mark.parametrize("model_class", [*_classes()], ids=lambda model_class: model_class.__name__)
def test_model_class_has_all_members(model_class):
    kind = decoded_model.CachedModel
    if model_class.is_recurrent:
        kind = decoded_model.RecurrentModel
    elif model_class.writes_in_parallel:
        kind = decoded_model.DecodedModel
    # `__init__` sets these attributes, so the class itself lacks them.
    attributes = {"specs", "num_steps", "softmax", "compiled_functions"}
    for name, member in _members(kind).items():
        if isinstance(member, property):
            found = inspect.getattr_static(model_class, name, None)
            assert name in attributes or not callable(found) and hasattr(model_class, name), name
        else:
            expected, found = _parameters(member), _parameters(getattr(model_class, name))
            assert found[: len(expected)] == expected, name
            # Decoding does not pass the other parameters, so they must have a default.
            others = found[len(expected) :]
            assert all(default is not inspect.Parameter.empty for _, _, default in others), name


def _trees():
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(".py"):
            with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                yield name, ast.parse(file.read())


def test_decoding_reads_exactly_the_members_of_the_protocols():
    read = {
        node.attr
        for _, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "model"
    }
    assert read == set(_members(*PROTOCOLS))


def test_decoding_annotates_models_as_protocols():
    """Each function of decoding annotates its model as a protocol.

    mypy then reports each member that the protocol lacks. For a class of Keras, mypy accepts any
    name.
    """
    names = {protocol.__name__ for protocol in PROTOCOLS}
    for file, tree in _trees():
        imported = {alias.name for node in ast.walk(tree) for alias in getattr(node, "names", ())}
        assert "keras" not in imported, file
        for function in tree.body:
            if isinstance(function, ast.FunctionDef) and "model." in ast.unparse(function):
                [argument] = [a for a in function.args.args if a.arg == "model"]
                assert argument.annotation is not None, (file, function.name)
                assert ast.unparse(argument.annotation) in names, (file, function.name)
