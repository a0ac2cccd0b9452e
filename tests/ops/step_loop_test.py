"""Tests for loops over recurrence steps."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras.layers.basic import dropout
from ut_keras.ops import devices, step_loop

LAYER = dropout.Dropout(0.1)


class OwnLayer(dropout.Dropout):
    """A layer of a user."""


@pytest.fixture(autouse=True)
def _with_gpu(monkeypatch):
    """Programs of XLA get their form for GPUs. A CPU runs them."""
    monkeypatch.setattr(devices, "has_gpu", lambda: True)


def _function(limit, max_steps=5, jit_compile=True, layer=LAYER, **arguments):
    """Return a function from x [3] to (x after some steps, gradient). A step is x -> x² / 2 + 1."""

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            _, last = step_loop.run(
                layer,
                lambda state: state[0] < limit,
                lambda state: (state[0] + 1, tf.square(state[1]) / 2 + 1),
                (tf.constant(0), x),
                max_steps,
                **arguments,
            )
        return last, tape.gradient(last, x)

    return tf.function(run, autograph=False, jit_compile=jit_compile)


def _operations(function, shape=(3,)):
    graph = function.get_concrete_function(tf.TensorSpec(shape)).graph
    names = [node.op for node in graph.as_graph_def().node]
    return sum("While" in name for name in names), sum("If" in name for name in names)


@pytest.mark.parametrize("limit, takes_all_steps", [(5, True), (2, False), (0, False)])
def test_written_out_steps_equal_a_loop(limit, takes_all_steps):
    x = tf.constant([0.5, 1.0, -2.0])
    compiled = _function(limit, takes_all_steps=takes_all_steps)
    expected = _function(limit, jit_compile=False)
    for found, want in zip(compiled(x), expected(x), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6)
    num_loops, num_conditions = _operations(compiled)
    assert num_loops == 0
    assert num_conditions == (0 if takes_all_steps else 10)  # 5 steps and their gradients


def test_conditions_keep_the_values_of_tensor_arrays():
    """The record of an adaptive depth is a TensorArray."""

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            record = tf.TensorArray(tf.float32, 6, element_shape=[3], clear_after_read=False)
            _, last, record = step_loop.run(
                LAYER,
                lambda state: state[0] < 2,
                lambda state: (state[0] + 1, state[1] * x, state[2].write(state[0] + 1, state[1])),
                (tf.constant(0), x, record.write(0, tf.zeros_like(x))),
                5,
            )
            recorded = record.stack()
            loss = tf.reduce_sum(tf.square(recorded)) + tf.reduce_sum(last)
        return last, recorded, tape.gradient(loss, x)

    compiled = tf.function(run, autograph=False, jit_compile=True)
    assert _operations(compiled) == (0, 10)
    x = tf.constant([0.5, 1.0, -2.0])
    for found, want in zip(compiled(x), tf.function(run, autograph=False)(x), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("takes_all_steps", [True, False])
def test_xla_keeps_the_entries_of_a_growing_array(takes_all_steps):
    """XLA cannot enlarge an array. Both branches of a `tf.cond` must return arrays of one shape."""

    def run(x):
        num_steps, last, record = step_loop.run(
            LAYER,
            lambda state: state[0] < (5 if takes_all_steps else 2),
            lambda state: (state[0] + 1, state[1] + x, state[2].write(state[0], state[1])),
            (tf.constant(0), x, step_loop.empty_array(5)),
            5,
            takes_all_steps=takes_all_steps,
        )
        return last, step_loop.stack_array(record, num_steps)

    x = tf.constant([0.5, 1.0, 2.0])
    compiled = tf.function(run, autograph=False, jit_compile=True)(x)
    for found, want in zip(compiled, tf.function(run, autograph=False)(x), strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    "arguments, shape",
    [
        ({"jit_compile": False}, (3,)),
        ({"max_steps": step_loop.MAX_UNROLLED_CONDITIONS + 1}, (3,)),
        ({"max_steps": step_loop.MAX_UNROLLED_STEPS + 1, "takes_all_steps": True}, (3,)),
        ({}, (None,)),
        ({"layer": keras.Sequential([LAYER, OwnLayer(0.1)])}, (3,)),
        ({"layer": OwnLayer(0.1)}, (3,)),
    ],
)
def test_loop_remains(arguments, shape):
    """XLA may be unable to compile a `tf.cond` with unknown shapes or with a layer of a user."""
    assert _operations(_function(2, **arguments), shape) == (2, 0)


def test_loop_remains_without_gpu(monkeypatch):
    """A loop is compiled in less time than all its steps."""
    monkeypatch.setattr(devices, "has_gpu", lambda: False)
    assert _operations(_function(5, takes_all_steps=True)) == (2, 0)
