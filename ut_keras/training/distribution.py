"""Creates the `tf.distribute` strategy of a run, and exchanges workers' values.

one device       OneDeviceStrategy
several GPUs     MirroredStrategy                 --worker_gpu=N
several workers  MultiWorkerMirroredStrategy      TF_CONFIG, see `cluster`
a TPU            TPUStrategy                      --use_tpu --cloud_tpu_name=…

Every run has a strategy, so all runs use the same train loop.

All workers have the same weights and perform the same updates. Some values exist only on one
worker, for example its clock, a signal that it received, or a score that it computed. Before the
workers use such a value, they must exchange it with `from_chief` or `any_worker`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ut_keras.data.reading.indexed_batches import WorkerSlices
from ut_keras.errors import UserError
from ut_keras.ops import autotuning
from ut_keras.process import interruption
from ut_keras.process.interruption import Interrupted
from ut_keras.training.cluster import Cluster

# The errors that TensorFlow raises in a worker after another worker has disappeared.
LOST_WORKER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


class DeviceError(UserError):
    """The requested devices are not available."""


class WorkerLost(Interrupted):
    """Another worker no longer responds.

    The run can resume from its newest checkpoint.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=75)  # 75 means "try again" in sysexits.h


def get_strategy(
    num_gpus: int = 1,
    devices: Sequence[str] | None = None,
    cluster: Cluster | None = None,
    tpu: str | None = None,
) -> tf.distribute.Strategy:
    """Return the strategy for the requested devices.

    Args:
        num_gpus: int. Number of GPUs for each worker. If it is 0, the worker uses the CPU. If it is
            1 and the machine has no GPU, the worker also uses the CPU.
        devices: list of str, such as ["CPU:0", "CPU:1"]. If given, `num_gpus` is ignored.
        cluster: `Cluster` of several workers. All workers must call this function before any other
            computation. Optional.
        tpu: str. Name or address of a TPU, or "local" on the machine of the TPU. Optional.

    Raises:
        DeviceError: if fewer GPUs are available than requested, or the TPU cannot be reached.
    """
    if tpu is not None:
        return _tpu_strategy(tpu)
    if devices is None:
        gpus = physical_gpus(num_gpus)
        devices = [f"GPU:{number}" for number in range(len(gpus))] or ["CPU:0"]
        if cluster is not None:
            tf.config.set_visible_devices(gpus, "GPU")
    if cluster is not None:
        return _multi_worker_strategy()
    if len(devices) == 1:
        return tf.distribute.OneDeviceStrategy(devices[0])
    return _mirrored_strategy(tuple(devices))


def physical_gpus(num_gpus: int) -> list[Any]:
    """Return the GPUs that a run with `num_gpus` uses.

    If one GPU is requested and the machine has none, the list is empty.

    Raises:
        DeviceError: if several GPUs are requested and fewer GPUs are available.
    """
    # Listing the logical devices would start TensorFlow's runtime. If there are several workers,
    # the strategy must be created before the runtime starts.
    gpus = tf.config.list_physical_devices("GPU")
    if num_gpus > max(1, len(gpus)):
        remedy = "" if gpus else " To use the CPU, set worker_gpu=1."
        raise DeviceError(
            f"worker_gpu must be at most the number of GPUs of this machine. "
            f"Received: worker_gpu={num_gpus}, with {len(gpus)} GPUs.{remedy}"
        )
    return gpus[:num_gpus]


@functools.cache
def _mirrored_strategy(devices):
    # This function is cached, because two strategies for the same devices would use the same ids
    # for their collective operations. Then one strategy could receive values that the other
    # strategy sent.
    return tf.distribute.MirroredStrategy(list(devices))


@functools.cache
def _multi_worker_strategy():
    # The constructor waits for the other workers without a time limit. During this time, Python
    # does not handle signals. TensorFlow also replaces Python's handler of SIGTERM permanently.
    with interruption.DefaultSignalActions():
        return tf.distribute.MultiWorkerMirroredStrategy()


def _tpu_strategy(name):
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(tpu=name)
        return tf.distribute.TPUStrategy(resolver)
    # An OSError means that the request to the cloud for the TPU's address failed.
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DeviceError(
            "cloud_tpu_name must be the name or address of a reachable TPU. "
            f"Received: {name!r}: {lines[0]}"
        ) from error


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """Return the number of processes that train together."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    cluster = strategy.cluster_resolver.cluster_spec().as_dict()
    return sum(len(addresses) for addresses in cluster.values())


def has_accelerator(strategy: tf.distribute.Strategy) -> bool:
    """Return whether the replicas of this process run on GPUs or TPUs.

    Such a device works in parallel with the Python program until the program reads a result.
    """
    devices = map(tf.DeviceSpec.from_string, strategy.extended.worker_devices)
    return any(device.device_type != "CPU" for device in devices)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Return whether this process writes the files of the run."""
    return strategy.extended.should_checkpoint


def distribute(strategy: tf.distribute.Strategy, dataset: tf.data.Dataset) -> Any:
    """Split each global batch between the replicas. No file and no batch is skipped.

    If there are several workers, each worker reads the complete dataset and keeps its share of the
    examples. With a single replica, the result is a `tf.data.Dataset`. A distributed dataset would
    make a second dataset for the device. Its autotuning cannot be turned off.
    """
    dataset = autotuning.disable(dataset)
    if strategy.num_replicas_in_sync == 1:
        return dataset
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return strategy.experimental_distribute_dataset(dataset.with_options(options))


def distribute_parts(
    strategy: tf.distribute.Strategy, make: Callable[[WorkerSlices | None], Any]
) -> Any:
    """Distribute batches as `distribute` does, but each worker reads only its share.

    Args:
        strategy: the strategy of the run.
        make: function that returns a dataset. Its argument is a `WorkerSlices` that selects one
            worker's share of every batch, or None for complete batches.
    """
    workers = num_workers(strategy)
    if workers == 1:
        return distribute(strategy, make(None))
    replicas = strategy.num_replicas_in_sync // workers
    return strategy.distribute_datasets_from_function(
        lambda context: make(WorkerSlices(context.input_pipeline_id, workers, replicas))
    )


def from_chief(strategy: tf.distribute.Strategy, value: Any) -> Any:
    """Return the number that the chief passes as `value`, on every worker.

    All workers must call this function.
    """
    if num_workers(strategy) == 1:
        return value
    return type(value)(_sum_over_workers(strategy, value if is_chief(strategy) else 0))


def any_worker(strategy: tf.distribute.Strategy, flag: Any) -> bool:
    """Return whether `flag` is true on any worker.

    All workers must call this function.
    """
    return _sum_over_workers(strategy, bool(flag)) > 0


def is_same_on_all_workers(strategy: tf.distribute.Strategy, value: Any) -> bool:
    """Return whether the int `value` is the same on all workers.

    All workers must call this function.
    """
    difference = abs(value - from_chief(strategy, value))
    return not any_worker(strategy, difference)


def _sum_over_workers(strategy, value):
    """Return the sum of a number over the workers.

    The first replica of each worker adds the number to the sum.
    """
    if num_workers(strategy) == 1:
        return float(value)
    return float(_all_reduce_function(strategy)(tf.constant(value, tf.float64)))


@functools.cache
def _all_reduce_function(strategy):
    """Return a compiled function that sums a float64 scalar over the workers."""
    replicas = strategy.num_replicas_in_sync // num_workers(strategy)

    @tf.function(input_signature=[tf.TensorSpec((), tf.float64)], autograph=False)
    def summed(value):
        total = strategy.run(_sum_of_first_replicas, args=(value, replicas))
        return strategy.experimental_local_results(total)[0]

    return summed


def _sum_of_first_replicas(value, replicas):
    """Return the sum of `value` over the first replica of each worker.

    Each replica calls this function.

    Args:
        value: float scalar.
        replicas: int, the number of replicas of each worker.
    """
    context = tf.distribute.get_replica_context()
    is_first = context.replica_id_in_sync_group % replicas == 0
    local_value = tf.where(is_first, value, tf.zeros_like(value))
    return context.all_reduce(tf.distribute.ReduceOp.SUM, local_value)


_SIGNAL_CHECK_STEPS = 10  # number of updates between two exchanges of signals among the workers


class CoordinatedStop(interruption.StopRequest):
    """A `StopRequest` with which all workers stop at the same step.

    Args:
        strategy: the strategy of the run.
        waits: bool, see `StopRequest`.
    """

    def __init__(self, strategy: tf.distribute.Strategy, waits: bool) -> None:
        super().__init__(waits)
        self._strategy = strategy
        self._is_single_worker = num_workers(strategy) == 1

    def is_due(self, step: int) -> bool:
        """Return whether training must stop after update number `step`."""
        if self._is_single_worker:
            return self.requested
        on_grid = step % _SIGNAL_CHECK_STEPS == 0
        return on_grid and any_worker(self._strategy, self.requested)

    def stops_evaluation(self) -> bool:
        """Return whether a signal must stop the current evaluation.

        Several workers evaluate together, so a signal to one of them does not stop the evaluation.
        """
        return self._is_single_worker and self.requested
