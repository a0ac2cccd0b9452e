"""The `tf.distribute` strategy of a run. There always is one: the train loop has one form.

one device       OneDeviceStrategy
several GPUs     MirroredStrategy                 --worker_gpu=N
several workers  MultiWorkerMirroredStrategy      TF_CONFIG, see `cluster`
a TPU            TPUStrategy                      --use_tpu --cloud_tpu_name=…

Several workers hold the same weights and take the same steps, so whatever one of them alone knows
(the clock, a signal, a score) must be agreed on before anything depends on it: `from_chief`,
`any_worker`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ut_keras.data.reading.indexed_batches import Part
from ut_keras.errors import UserError
from ut_keras.process import interruption
from ut_keras.process.interruption import Interrupted
from ut_keras.training.cluster import Cluster

# What TensorFlow raises in a worker once another has gone.
LOST_WORKER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


class DeviceError(UserError):
    """Devices were asked for that are not there."""


class WorkerLost(Interrupted):
    """Another worker does not answer any more: the run can go on from its newest checkpoint."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=75)  # "try again", in sysexits.h


def get_strategy(
    num_gpus: int = 1,
    devices: Sequence[str] | None = None,
    cluster: Cluster | None = None,
    tpu: str | None = None,
) -> tf.distribute.Strategy:
    """Returns the strategy for the devices asked for.

    Args:
        num_gpus: int. How many GPUs to use (of each worker); with 0, or 1 where there is none, the
            CPU.
        devices: list of str, such as ["CPU:0", "CPU:1"]. Overrides `num_gpus`.
        cluster: `Cluster` of several workers; all of them must call this before anything else is
            computed. Optional.
        tpu: str. Name or address of a TPU, "local" on a TPU's own machine. Optional.

    Raises:
        DeviceError: if there are fewer GPUs than asked for, or no TPU.
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
    """The GPUs of this machine that are used if so many are asked for; of 1, none may be there.

    Raises:
        DeviceError: if there are fewer.
    """
    # Listing the logical devices would start the runtime, too early for several workers.
    gpus = tf.config.list_physical_devices("GPU")
    if num_gpus > max(1, len(gpus)):
        raise DeviceError(
            f"worker_gpu must be at most the number of GPUs of this machine. "
            f"Received: worker_gpu={num_gpus}, with {len(gpus)} GPUs."
        )
    return gpus[:num_gpus]


@functools.cache
def _mirrored_strategy(devices):
    # Two strategies over the same devices would number their collective operations alike, and one
    # would receive what the other sends.
    return tf.distribute.MirroredStrategy(list(devices))


@functools.cache
def _multi_worker_strategy():
    # It waits for the others without an end, where Python hears no signal, and takes SIGTERM from
    # Python for good.
    with interruption.EndsWithoutPython():
        return tf.distribute.MultiWorkerMirroredStrategy()


def _tpu_strategy(name):
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(tpu=name)
        return tf.distribute.TPUStrategy(resolver)
    # OSError: of asking the cloud where the TPU is.
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DeviceError(
            "cloud_tpu_name must be the name or address of a reachable TPU. "
            f"Received: {name!r}: {lines[0]}"
        ) from error


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """How many processes train together."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    cluster = strategy.cluster_resolver.cluster_spec().as_dict()
    return sum(len(addresses) for addresses in cluster.values())


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes the files of the run."""
    return strategy.extended.should_checkpoint


def distribute(strategy: tf.distribute.Strategy, dataset: tf.data.Dataset) -> Any:
    """Spreads global batches over the replicas: each batch is cut, no file or batch is left out.

    Each of several workers reads all, and keeps its rows.
    """
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return strategy.experimental_distribute_dataset(dataset.with_options(options))


def distribute_parts(strategy: tf.distribute.Strategy, make: Callable[[Part | None], Any]) -> Any:
    """The same, where several workers read no more than their own rows.

    `make` makes the dataset of a `Part`, or of None for all of every batch.
    """
    workers = num_workers(strategy)
    if workers == 1:
        return distribute(strategy, make(None))
    replicas = strategy.num_replicas_in_sync // workers
    return strategy.distribute_datasets_from_function(
        lambda context: make(Part(context.input_pipeline_id, workers, replicas))
    )


def from_chief(strategy: tf.distribute.Strategy, value: Any) -> Any:
    """The chief's value, a number, on every worker; all of them must call it."""
    if num_workers(strategy) == 1:
        return value
    return type(value)(_sum_over_workers(strategy, value if is_chief(strategy) else 0))


def any_worker(strategy: tf.distribute.Strategy, flag: Any) -> bool:
    """Whether `flag` is true on any worker; all of them must call it."""
    return _sum_over_workers(strategy, bool(flag)) > 0


def is_same_on_all_workers(strategy: tf.distribute.Strategy, value: Any) -> bool:
    """Whether `value`, an int, is the same on all workers; all of them must call it."""
    difference = abs(value - from_chief(strategy, value))
    return not any_worker(strategy, difference)


def _sum_over_workers(strategy, value):
    """The sum of a number over the workers, by their first replicas."""
    if num_workers(strategy) == 1:
        return float(value)
    return float(_all_reduce_function(strategy)(tf.constant(value, tf.float64)))


@functools.cache
def _all_reduce_function(strategy):
    replicas = strategy.num_replicas_in_sync // num_workers(strategy)

    @tf.function(input_signature=[tf.TensorSpec((), tf.float64)], autograph=False)
    def summed(value):
        def in_replica(value):
            context = tf.distribute.get_replica_context()
            is_first = context.replica_id_in_sync_group % replicas == 0
            local_value = tf.where(is_first, value, tf.zeros_like(value))
            return context.all_reduce(tf.distribute.ReduceOp.SUM, local_value)

        total = strategy.run(in_replica, args=(value,))
        return strategy.experimental_local_results(total)[0]

    return summed


_SIGNAL_CHECK_STEPS = 10  # workers ask each other for signals


class CoordinatedStop(interruption.StopRequest):
    """A `StopRequest` that knows of others: several workers always wait, to stop together."""

    def __init__(self, strategy: tf.distribute.Strategy, waits: bool = True) -> None:
        self._strategy = strategy
        self._is_single_worker = num_workers(strategy) == 1
        super().__init__(waits or not self._is_single_worker)

    def is_due(self, step: int) -> bool:
        """Whether to stop after update number `step`."""
        if self._is_single_worker:
            return self.requested
        on_grid = step % _SIGNAL_CHECK_STEPS == 0
        return on_grid and any_worker(self._strategy, self.requested)

    def stops_evaluation(self) -> bool:
        """Whether to leave an evaluation, which several workers can only do together."""
        return self._is_single_worker and self.requested
