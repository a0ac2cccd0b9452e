"""Tests of a search that splits a batch into parts and runs the parts in parallel."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from ut_keras import process
from ut_keras.decoding import parallel_batch

CPU = tf.config.LogicalDevice("/device:CPU:0", "CPU")
GPU = tf.config.LogicalDevice("/device:GPU:0", "GPU")


def _set_threads(monkeypatch, of_all, of_operation, devices=(CPU,)):
    threading_options = tf.config.threading
    monkeypatch.setattr(threading_options, "get_inter_op_parallelism_threads", lambda: of_all)
    monkeypatch.setattr(threading_options, "get_intra_op_parallelism_threads", lambda: of_operation)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda: list(devices))
    monkeypatch.setattr(process, "num_processors", lambda: 8)
    for kind in ("INTEROP", "INTRAOP"):
        monkeypatch.delenv(f"TF_NUM_{kind}_THREADS", raising=False)


@pytest.mark.parametrize(
    ("of_all", "of_operation", "rows", "parts"),
    [
        (0, 0, 64, 1),  # these numbers are TensorFlow's defaults
        (0, 1, 64, 8),
        (0, 3, 64, 2),
        (4, 1, 64, 4),
        (4, 0, 64, 1),
        (2, 8, 64, 1),
        (0, 1, 5, 5),
        (0, 1, 0, 1),
    ],
)
def test_number_of_parts_is_cores_per_operation_threads(
    monkeypatch, of_all, of_operation, rows, parts
):
    _set_threads(monkeypatch, of_all, of_operation)
    assert parallel_batch.number_of_parts(rows) == parts


def test_number_of_parts_reads_environment(monkeypatch):
    _set_threads(monkeypatch, 0, 0)
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")
    assert parallel_batch.number_of_parts(64) == 8
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "4")
    assert parallel_batch.number_of_parts(64) == 4
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "one")  # TensorFlow ignores this value
    assert parallel_batch.number_of_parts(64) == 1


def test_number_of_parts_is_one_with_gpu(monkeypatch):
    _set_threads(monkeypatch, 0, 1, [CPU, GPU])
    assert parallel_batch.number_of_parts(64) == 1


@pytest.fixture
def three(monkeypatch):
    monkeypatch.setattr(parallel_batch, "number_of_parts", lambda batch_size: min(3, batch_size))


@pytest.mark.parametrize(("batch_size", "sizes"), [(7, [2, 2, 3]), (3, [1, 1, 1]), (2, [1, 1])])
def test_run_keeps_order(three, batch_size, sizes):
    one = tf.TensorSpec([None], tf.int32)
    signature = [{"a": one, "b": tf.TensorSpec([None, 1], tf.int32)}, tf.TensorSpec([], tf.int32)]

    @tf.function(input_signature=signature)
    def add(rows, number):
        return rows["a"] + rows["b"][:, 0] + number

    rows = {"a": tf.range(batch_size), "b": tf.reshape(10 * tf.range(batch_size), [-1, 1])}
    parts = parallel_batch.run(add, rows, tf.constant(1))
    assert [len(part) for part in parts] == sizes
    np.testing.assert_array_equal(tf.concat(parts, axis=0), 11 * np.arange(batch_size) + 1)


def test_run_is_parallel(three):
    class Search:
        """A search that waits until three threads call it. Otherwise, its barrier breaks."""

        barrier = threading.Barrier(3, timeout=60)

        def get_concrete_function(self):
            return self

        def __call__(self, x):
            self.barrier.wait()
            return x

    assert len(parallel_batch.run(Search(), tf.range(6))) == 3


def test_run_traces_once(three):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def double(x):
        return 2 * x

    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        parts = parallel_batch.run(double, tf.range(6))
    np.testing.assert_array_equal(tf.concat(parts, axis=0), 2 * np.arange(6))
    assert double.experimental_get_tracing_count() == 1


def test_run_raises_error_of_a_part(three):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def check(x):
        tf.debugging.assert_less(x, 4)
        return x

    with pytest.raises(tf.errors.InvalidArgumentError):
        parallel_batch.run(check, tf.range(6))


def test_run_has_one_part_in_a_graph(three):
    @tf.function
    def double(x):
        return 2 * x

    @tf.function
    def outer(x):
        (result,) = parallel_batch.run(double, x)
        return result

    np.testing.assert_array_equal(outer(tf.range(6)), 2 * np.arange(6))
