import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from ut_keras.ops import custom_gradient, private_api


@custom_gradient.wrap
def _square(x):
    # This gradient is wrong, so that the test can distinguish it from TensorFlow's own gradient.
    return x * x, lambda upstream: 20 * x * upstream


def _in_a_loop(x):
    step = lambda i, y: (i + 1, _square(y))  # noqa: E731
    return tf.while_loop(lambda i, _: i < 1, step, (0, x), maximum_iterations=3)[1]


def _gradient(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize("function", [_square, _in_a_loop])
def test_custom_gradient_is_used_in_every_mode(function):
    x = tf.constant([3.0, 1.0])
    found = [
        _gradient(function, x),
        tf.function(lambda x: _gradient(function, x))(x),
        tf.function(lambda x: tf.gradients(function(x), x)[0])(x),
        _gradient(tf.function(function), x),
        _gradient(tf.function(tf.function(function)), x),
        tf.function(lambda x: _gradient(function, x), jit_compile=True)(x),
    ]
    np.testing.assert_array_equal(found, [[60, 20]] * len(found))


def test_custom_gradient_is_freed_with_its_graph():
    def graph_of(function):
        traced = tf.function(function)
        _gradient(traced, tf.constant([3.0]))
        return weakref.ref(traced.get_concrete_function(tf.TensorSpec([1])).graph)

    filed = set(ops.gradient_registry.list())
    graphs = [graph_of(_square), graph_of(_in_a_loop)]
    gc.collect()
    assert [graph() for graph in graphs] == [None, None]
    assert set(ops.gradient_registry.list()) <= filed


def test_custom_gradient_can_be_disabled():
    with custom_gradient.disabled():
        traced = tf.function(_square).get_concrete_function(tf.TensorSpec([2]))
    assert not [op for op in traced.graph.get_operations() if "_gradient_op_type" in str(op)]
    np.testing.assert_array_equal(_gradient(traced, tf.constant([3.0, 1.0])), [6, 2])
    np.testing.assert_array_equal(_gradient(_square, tf.constant([3.0, 1.0])), [60, 20])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_gradient_has_the_form_of_its_forward_pass(jit_compile):
    """The tape is outside of the function, so TensorFlow traces the gradient outside of it."""
    seen = []

    @custom_gradient.wrap
    def identity(x):
        seen.append(private_api.is_compiled_by_xla())

        def gradient(upstream):
            seen.append(private_api.is_compiled_by_xla())
            return upstream

        return x + 0, gradient

    inner = tf.function(identity, jit_compile=jit_compile)
    tf.function(lambda x: _gradient(inner, x))(tf.constant([3.0]))
    assert len(seen) >= 2 and set(seen) == {jit_compile}
    assert not private_api.is_compiled_by_xla()
