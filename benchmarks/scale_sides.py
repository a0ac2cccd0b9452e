"""What scale.py times: the trainer's own step, here or in other processes, and the input pipeline.

As a command it is one of those other processes:

    scale_sides.py step SEQUENCES LENGTH REPLICAS CORE    steps, as stdin asks for them
    scale_sides.py memory SEQUENCES LENGTH                peak memory of transformer_base
"""

import json
import os
import resource
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

VOCABULARY = 8000
WMT_VOCABULARY = 33708  # of translate_ende_wmt32k


class Step:
    """The trainer's step of a Universal Transformer.

    Args:
        steps: int, of the recurrence.
        replicas: int. The CPU is divided into so many logical devices; two divisions in one process
            would get into each other's way.
        strategy: overrides `replicas`.
        hparams_set: another model instead: a Transformer's set, as it is.
    """

    def __init__(self, steps=6, replicas=1, strategy=None, hparams_set=None):
        import tensorflow as tf

        from ut_keras import hparams, models, optimizers
        from ut_keras.training import distribution

        tf.keras.utils.set_random_seed(1)
        if replicas > 1:
            tf.config.set_logical_device_configuration(
                tf.config.list_physical_devices("CPU")[0],
                [tf.config.LogicalDeviceConfiguration()] * replicas,
            )
        devices = [f"CPU:{number}" for number in range(replicas)]
        self.strategy = strategy or distribution.get_strategy(devices=devices)
        size = WMT_VOCABULARY if hparams_set else VOCABULARY
        with self.strategy.scope():
            self.model = models.get(
                "transformer" if hparams_set else "universal_transformer",
                hparams.get(
                    hparams_set or "universal_transformer_base",
                    ""
                    if hparams_set
                    else f"hidden_size=256,filter_size=1024,num_heads=4,num_rec_steps={steps}",
                ),
                vocab_sizes={"inputs": size, "targets": size},
            )
            self.optimizer = optimizers.get(self.model.hparams)
            self.optimizer.build(self.model.trainable_variables)
        self._size = size
        self._step = None

    @property
    def num_weights(self):
        return sum(int(tf_size(weight)) for weight in self.model.trainable_variables)

    def runner(self, sequences, length):
        """A function (number of steps) -> seconds of each, on one fixed global batch."""
        import numpy as np
        import tensorflow as tf

        from ut_keras.training import distribution, train_step

        rng = np.random.default_rng(1)

        def ids():
            drawn = rng.integers(2, self._size, size=(sequences, length), dtype=np.int32)
            drawn[:, -1] = 1
            return drawn

        # Padded to the longest row, so that the step is compiled once, for any length.
        shapes = {"inputs": [None], "targets": [None]}
        rows = tf.data.Dataset.from_tensor_slices({name: ids() for name in shapes}).repeat()
        dataset = rows.padded_batch(sequences, shapes, drop_remainder=False)
        dataset = dataset.map(lambda batch: (batch, batch["targets"])).prefetch(2)
        distributed = distribution.distribute(self.strategy, dataset)
        batches = iter(distributed)
        if self._step is None:
            self._step = train_step.make_train_step(
                self.model, self.optimizer, self.strategy, distributed.element_spec
            )

        def run(count):
            seconds = []
            for _ in range(count):
                start = time.perf_counter()
                float(self._step(next(batches)).loss)
                seconds.append(time.perf_counter() - start)
            return seconds

        return run

    def saver(self, directory):
        """Functions that save a checkpoint as the trainer does: one that starts, one that waits."""
        from ut_keras.checkpoints import checkpoint
        from ut_keras.training import saving

        checkpoints = checkpoint.Checkpoints(directory, self.model, self.optimizer, keep=2)
        check = saving.WeightCheck(self.model)

        def start():
            check.before_save(0)
            checkpoints.start_saving()

        return start, checkpoints.finish_saving


def tf_size(weight):
    size = 1
    for axis in weight.shape:
        size *= axis
    return size


class Processes:
    """Processes that take the same steps at a time; with several, each has a core of its own.

    Args:
        number: int.
        connected: bool. Whether they are workers of one run (TF_CONFIG, over loopback).
        sequences, length: ints. The batch; the global one if they are connected.
        replicas: int, in each.
    """

    def __init__(self, number, connected, sequences, length, replicas=1):
        addresses = [f"localhost:{port}" for port in _free_ports(number)]
        self._processes = []
        for index in range(number):
            environment = dict(os.environ)
            environment.pop("TF_CONFIG", None)
            if connected:
                environment["TF_CONFIG"] = json.dumps(
                    {
                        "cluster": {"worker": addresses},
                        "task": {"type": "worker", "index": index},
                    }
                )
            core = index % os.cpu_count() if number > 1 else -1
            words = ["step", *map(str, (sequences, length, replicas, core))]
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, os.path.abspath(__file__), *words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    text=True,
                )
            )
        self.num_weights = [self._read(process) for process in self._processes][0]

    def run(self, steps):
        """Seconds of each step, of the slowest process."""
        for process in self._processes:
            process.stdin.write(f"{steps}\n")
            process.stdin.flush()
        return [max(taken) for taken in zip(*map(self._read, self._processes), strict=True)]

    def close(self):
        for process in self._processes:
            process.stdin.close()
        for process in self._processes:
            process.wait()

    def _read(self, process):
        for line in process.stdout:
            if line.startswith("RESULT "):
                return json.loads(line.removeprefix("RESULT "))
        raise SystemExit(f"A process stopped with exit code {process.wait()}.")


def _free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Pipeline:
    """A problem's batches for training, without a model."""

    def __init__(self, problem, data_dir):
        from ut_keras import hparams, problems

        self._problem = problems.get(problem)
        self._problem.generate_data(data_dir, data_dir)
        self._data_dir = data_dir
        self._hp = hparams.get("transformer_base")
        self._batches = iter(())
        self._epoch = 0

    def tokens_per_second(self, seconds):
        """Real tokens of both sides a second, over at least so many seconds."""
        import numpy as np

        tokens, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            batch = next(self._batches, None)
            if batch is None:
                self._epoch += 1
                dataset = self._problem.dataset("train", self._data_dir, self._hp, seed=self._epoch)
                self._batches = dataset.as_numpy_iterator()
                continue
            features, targets = batch
            tokens += np.count_nonzero(targets)
            tokens += np.count_nonzero(features["inputs"]) if "inputs" in features else 0
        return float(tokens / (time.perf_counter() - start))


def step_process(sequences, length, replicas, core):
    """Takes as many steps as each line of stdin says, and prints their seconds."""
    if core >= 0:
        os.sched_setaffinity(0, {core})
    strategy = None
    if "TF_CONFIG" in os.environ:
        from ut_keras.training import cluster, distribution

        strategy = distribution.get_strategy(cluster=cluster.from_environment())
    step = Step(replicas=replicas, strategy=strategy)
    run = step.runner(sequences, length)
    print("RESULT", json.dumps(step.num_weights), flush=True)
    for line in sys.stdin:
        print("RESULT", json.dumps(run(int(line))), flush=True)
    os._exit(0)  # with several replicas TensorFlow's own exit was seen to hang


def memory_process(sequences, length):
    """Prints how far a step of transformer_base raises the peak that making the model has left.

    What making it leaves free counts for nothing, so compare batches with each other.
    """
    step = Step(hparams_set="transformer_base")
    before = _peak_bytes()
    step.runner(sequences, length)(2)
    print(json.dumps({"bytes": _peak_bytes() - before, "weights": step.num_weights}))


def _peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    if sys.argv[1] == "step":
        step_process(*map(int, sys.argv[2:]))
    else:
        memory_process(*map(int, sys.argv[2:]))
