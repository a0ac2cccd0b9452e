"""Computes the parts of a batch in parallel, each part in a separate thread.

The operations of a search are so short that sharing one among several cores costs more than it
saves. The examples of a batch are independent, so it is faster if each core runs its own loop over
a part of the batch.
"""

import concurrent.futures
import itertools
import os
from typing import Any

import tensorflow as tf

from ut_keras import process


def number_of_parts(batch_size: int) -> int:
    """Return the number of parts that can run in parallel, at most `batch_size`.

    This is the number of cores divided by the number of threads that one operation may use. With
    TensorFlow's default settings, one operation may use all cores, so there is one part. After
    `tf.config.threading.set_intra_op_parallelism_threads(1)`, or with TF_NUM_INTRAOP_THREADS=1 in
    the environment, there is one part per core. On devices other than CPUs there is one part.
    """
    if any(device.device_type != "CPU" for device in tf.config.list_logical_devices()):
        return 1
    options = tf.config.threading
    cores = options.get_inter_op_parallelism_threads()
    cores = cores or _from_environment("INTEROP", process.num_processors())
    threads_per_operation = options.get_intra_op_parallelism_threads() or _from_environment(
        "INTRAOP", cores
    )
    return max(1, min(cores // threads_per_operation, batch_size))


def _from_environment(kind, default):
    """Return a number of threads from the environment, parsed as in TensorFlow."""
    text = os.environ.get(f"TF_NUM_{kind}_THREADS", "")
    return int(text) if text.isdecimal() and int(text) else default


def run(function: Any, rows: Any, *arguments: Any) -> list:
    """Call a function with each part of a batch, in parallel.

    Args:
        function: `tf.function` with an input signature.
        rows: nest of tensors [B, ...], split into the first arguments of the calls.
        arguments: the other arguments of the function, which are the same for all parts.

    Returns:
        list with the result of each part, in the order of the batch. During the tracing of a graph,
            the batch is a single part.
    """
    batch_size = tf.nest.flatten(rows)[0].shape[0]
    in_graph = not tf.executing_eagerly() or tf.config.functions_run_eagerly()
    parts = 1 if in_graph else number_of_parts(batch_size)
    if parts == 1:
        return [function(rows, *arguments)]
    ends = [batch_size * part // parts for part in range(parts + 1)]
    slices = [
        tf.nest.map_structure(lambda x, start=start, end=end: x[start:end], rows)
        for start, end in itertools.pairwise(ends)
    ]
    # Trace in this thread: under a distribution strategy, each other thread would trace again.
    traced = function.get_concrete_function()
    with concurrent.futures.ThreadPoolExecutor(parts) as pool:
        return list(pool.map(lambda part: traced(part, *arguments), slices))
