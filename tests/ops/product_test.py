import ast
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import ut_keras
from tests.layers import layer_checks
from ut_keras.ops import product

# In these files, matrix products have no batch axes, or both factors have the same batch axes.
_OF_MATRICES = {"dense.py", "embedding.py", "lstm.py", "lstm_attention.py", "product.py"}


@pytest.mark.parametrize("shape", [(3, 2, 1, 4), (3, 2, 5, 4), (3, 1, 6, 1, 4), (3, 1, 6, 2, 4)])
def test_product_matches_reference(shape):
    a = tf.constant(layer_checks.normal(*shape))
    b = tf.constant(layer_checks.normal(*shape[:-2], 7, 4, seed=1))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([a, b])
        both = [
            product.product(a, b, transpose=True),
            product.product(a, tf.linalg.matrix_transpose(b)),
            product.product(
                tf.linalg.matrix_transpose(a), tf.linalg.matrix_transpose(b), transpose_a=True
            ),
            tf.reduce_sum(a[..., tf.newaxis, :] * b[..., tf.newaxis, :, :], axis=-1),
        ]
        squares = [tf.reduce_sum(values**2) for values in both]
    want = tape.gradient(squares[3], [a, b])
    for values, square in zip(both[:3], squares[:3], strict=True):
        np.testing.assert_allclose(values, both[3], atol=1e-5)
        for gradient, wanted in zip(tape.gradient(square, [a, b]), want, strict=True):
            np.testing.assert_allclose(gradient, wanted, atol=1e-3)


def test_product_rejects_broadcasting():
    x = tf.zeros([3, 1, 5, 4])
    for other in (x[:1], x[0], tf.zeros([3, 2, 5, 4])):
        with pytest.raises(ValueError, match="Received: .*3, 1, 5, 4"):
            product.product(x, other, transpose=True)


@pytest.mark.parametrize("batch", [1, 3, 8])
@pytest.mark.parametrize(("heads", "tables"), [(1, 1), (3, 1), (3, 3)])
def test_per_head_matches_reference(batch, heads, tables):
    x = layer_checks.normal(batch, heads, 5, 4)
    rows = layer_checks.normal(tables, 6, 4, seed=1)
    want = np.matmul(x, np.swapaxes(rows, 1, 2))
    np.testing.assert_allclose(
        product.per_head(tf.constant(x), tf.constant(rows), transpose=True), want, atol=1e-5
    )
    columns = tf.constant(np.swapaxes(rows, 1, 2))
    np.testing.assert_allclose(product.per_head(tf.constant(x), columns), want, atol=1e-5)


def test_layers_use_no_other_matmul():
    """A `tf.matmul` could broadcast, which crashes TensorFlow. See the module `product`."""
    folder = os.path.join(os.path.dirname(ut_keras.__file__), "layers")
    elsewhere = []
    for path in sorted(pathlib.Path(folder).rglob("*.py")):
        if path.name not in _OF_MATRICES:
            elsewhere += [
                f"{path}:{node.lineno}"
                for node in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(node, ast.Attribute) and "matmul" in node.attr.lower()
            ]
    assert not elsewhere
