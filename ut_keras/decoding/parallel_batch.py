"""Parts of a batch computed at the same time, each by a thread of its own.

An operation of a search is over before several cores have agreed on how to share it. Rows do not
depend on each other, so cores serve a batch better with a loop each.
"""

import concurrent.futures
import itertools
import os
from typing import Any

import tensorflow as tf

from ut_keras import process


def number_of_parts(batch_size: int) -> int:
    """How many loops there are cores for, when each takes as many as an operation may.

    With TensorFlow's own settings an operation may take all: then there is one. It takes
    `tf.config.threading.set_intra_op_parallelism_threads(1)`, or TF_NUM_INTRAOP_THREADS=1 in the
    environment, to have one for each core. Where there are other devices than CPUs, there is one.
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
    """A number of threads as TensorFlow reads it."""
    text = os.environ.get(f"TF_NUM_{kind}_THREADS", "")
    return int(text) if text.isdecimal() and int(text) else default


def run(function: Any, rows: Any, *arguments: Any) -> list:
    """Calls a function with the parts of a batch.

    Args:
        function: `tf.function` with an input signature.
        rows: nest of tensors [B, ...], its first argument.
        arguments: the others, the same for all rows.
    Returns:
        list of its results, in the order of the rows; of one alone while a graph is traced.
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
    # Another thread would trace anew where this one is in the scope of a strategy.
    traced = function.get_concrete_function()
    with concurrent.futures.ThreadPoolExecutor(parts) as pool:
        return list(pool.map(lambda part: traced(part, *arguments), slices))
