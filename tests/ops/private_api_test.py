"""Only `ops/private_api.py` uses private interfaces of TensorFlow and Keras."""

import ast
import pathlib

import keras
import pytest
import tensorflow as tf

from ut_keras.ops import private_api

ROOT = pathlib.Path(__file__).parents[2]
HOME = pathlib.Path("ut_keras/ops/private_api.py")
# Classes of ut_keras that are not Keras layers also use these names, for their own attributes.
OWN_ATTRIBUTES = {"_lock", "_path"}


def _private_names():
    model = keras.Sequential([keras.layers.Dense(2)])
    model.build((None, 2))
    model.compile("adam", "mse")
    objects = [model, model.layers[0], model.optimizer, model.loss, keras.metrics.Mean()]
    found = set()
    for thing in objects:
        found |= {name for name in dir(thing) if name.startswith("_") and name[1] != "_"}
    return found - OWN_ATTRIBUTES


def _product_files():
    for folder in ("ut_keras", "problems", "hparams"):
        for path in (ROOT / folder).rglob("*.py"):
            relative = path.relative_to(ROOT)
            is_link = relative.parts[:2] in {("ut_keras", "problems"), ("ut_keras", "hparams")}
            if not is_link and relative != HOME:
                yield relative, ast.parse(path.read_text(encoding="utf-8"))


def _imports(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return []


def test_private_interfaces_are_in_one_module():
    private = _private_names()
    assert {"_flatten_layers", "_loss_tracker", "_get_variable_index"} <= private
    found = []
    for path, tree in _product_files():
        for node in ast.walk(tree):
            names = [
                name
                for name in _imports(node)
                if name.startswith(("tensorflow.python", "keras.src", "keras._"))
            ]
            if isinstance(node, ast.Attribute) and node.attr in private:
                names.append(node.attr)
            if isinstance(node, ast.FunctionDef) and node.name in private:
                names.append(node.name)
            if isinstance(node, ast.Constant) and node.value in private:
                names.append(node.value)
            found += [f"{path}:{node.lineno} {name}" for name in names]
    assert found == []


def test_import_system_is_changed_for_t2t_packages_only():
    """Outside of ut_keras/t2t, only the module `short_names` adds entries to `sys.modules`."""
    found = []
    for path, tree in _product_files():
        for node in ast.walk(tree):
            name = None
            if isinstance(node, ast.Attribute) and node.attr in ("meta_path", "path_hooks"):
                name = node.attr
            if isinstance(node, ast.Constant) and node.value == "__import__":
                name = node.value
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                name = {"sys.modules": "sys.modules"}.get(ast.unparse(node.value))
            if name and path.parts[:2] != ("ut_keras", "t2t"):
                found.append(f"{path}: {name}")
    assert found == ["ut_keras/process/short_names.py: sys.modules"]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_is_compiled_by_xla_inside_a_loop(jit_compile):
    def inside():
        seen = []

        def body(i):
            seen.append(private_api.is_compiled_by_xla())
            return (i + 1,)

        tf.while_loop(lambda i: i < 2, body, [0])
        return tf.constant(seen)

    assert not private_api.is_compiled_by_xla()
    assert (tf.function(inside, jit_compile=jit_compile)().numpy() == jit_compile).all()


def test_may_record_gradients_only_under_a_tape():
    assert not private_api.may_record_gradients()
    with tf.GradientTape():
        assert private_api.may_record_gradients()


def test_limit_of_gpu_memory_is_part_of_the_configuration(monkeypatch):
    context = private_api.context.context()
    tf.zeros(1)
    with pytest.raises(RuntimeError):
        private_api.limit_gpu_memory(0.25)
    before = context.config
    monkeypatch.setattr(context, "_context_handle", None)  # as if the runtime had not started
    monkeypatch.setattr(context, "_config", None)
    private_api.limit_gpu_memory(0.25)
    options = context.config.gpu_options
    assert options.per_process_gpu_memory_fraction == 0.25
    options.per_process_gpu_memory_fraction = 0
    assert options == before.gpu_options
    assert context.config.device_count == before.device_count
