import numpy as np
import pytest
import tensorflow as tf

from ut_keras.ops import gather

_DTYPES = [tf.float16, tf.bfloat16, tf.float32]


def _rows_and_gradient(table, ids, upstream):
    with tf.GradientTape() as tape:
        tape.watch(table)
        rows = gather.rows(table, ids)
    return rows, tape.gradient(rows, table, upstream)


def _in_graph(jit_compile):
    return tf.function(_rows_and_gradient, autograph=False, jit_compile=jit_compile)


_FUNCTIONS = [_rows_and_gradient, _in_graph(False), _in_graph(True)]


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("function", _FUNCTIONS, ids=["eager", "graph", "xla"])
def test_rows_and_gradient_match_numpy(function, dtype):
    rng = np.random.default_rng(0)
    table, upstream = (
        rng.integers(-9, 9, shape).astype("float32") for shape in [(5, 3), (2, 4, 3)]
    )
    ids = np.array([[0, 4, 4, 1], [1, 0, 4, 4]])
    rows, of_table = function(tf.constant(table, dtype), ids, tf.constant(upstream, dtype))
    expected = np.zeros_like(table)
    np.add.at(expected, ids, upstream)
    np.testing.assert_array_equal(rows.numpy().astype("float32"), table[ids])
    np.testing.assert_array_equal(of_table.numpy().astype("float32"), expected)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("function", _FUNCTIONS, ids=["eager", "graph", "xla"])
def test_gradient_sums_thousands_of_rows(function, dtype):
    ids = tf.zeros([4096], tf.int32)
    _, of_table = function(tf.ones([2, 3], dtype), ids, tf.ones([4096, 3], dtype))
    np.testing.assert_array_equal(of_table.numpy().astype("float32"), [[4096.0] * 3, [0.0] * 3])


def test_rows_in_16_bits_have_a_gradient_in_a_loop():
    table = tf.ones([2, 3], tf.bfloat16)

    @tf.function(autograph=False)
    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(table)
            _, total = tf.while_loop(
                lambda step, _: step < 3,
                lambda step, total: (
                    step + 1,
                    total + tf.reduce_sum(gather.rows(table, tf.stack([step % 2, 1]))),
                ),
                (tf.constant(0), tf.constant(0.0, tf.bfloat16)),
            )
        return tape.gradient(total, table)

    np.testing.assert_array_equal(gradient().numpy().astype("float32"), [[2.0] * 3, [4.0] * 3])
