"""Process the same batches on one of two workers or on one device, and print results as JSON.

    TF_CONFIG=… python -m tests.training.two_workers DATA_DIR

two_workers_test.py runs this program on two workers. The test also calls `train_all` in its own
process, without TF_CONFIG.
"""

import json
import sys

import keras
import numpy as np

from tests.training import compiled_replicas, two_replicas
from ut_keras import optimizers
from ut_keras.data import features, tfrecords
from ut_keras.data.reading import input_pipeline, record_index
from ut_keras.training import cluster, distribution, epochs, train_step

_VOCAB_SIZE = two_replicas.toy.VOCAB_SIZE
_SPECS = {name: features.FeatureSpec(_VOCAB_SIZE) for name in ("inputs", "targets")}
_STEPS = 10  # number of updates with batches from files; an epoch has seven batches


def write_data(data_dir):
    """Write a few examples of many lengths, so that one batch has only one example."""
    random = np.random.RandomState(0)
    lengths = [*random.randint(1, 12, 35), 20]
    examples = [{name: _ids(random, length) for name in _SPECS} for length in lengths]
    tfrecords.write(examples, tfrecords.shard_paths(data_dir, "toy", "train", 2))


def _ids(random, length):
    return [*random.randint(2, _VOCAB_SIZE, length).tolist(), 1]


def train_all(strategy, data_dir):
    """Train on batches in memory and from files, exchange values, and return all results."""
    made = {name: made for name, *made in two_replicas.RUNS}
    return {
        "batches": two_replicas.train(*made["adaptive"], strategy),
        # The ponder cost of this model counts padding.
        "files": _train_from_files(*made["toy"], strategy, data_dir),
        "rows": _rows(strategy, data_dir),
        "agreed": _agreed(strategy),
        "xla": _difference_with_xla(strategy),
    }


def _difference_with_xla(strategy):
    """Return the largest difference between the variables after updates with and without XLA.

    The states of batch normalization are among the variables.
    """
    values = []
    for jit_compile in (False, True):
        keras.utils.set_random_seed(0)
        with strategy.scope():
            model = compiled_replicas.RUNS["normalized"]()
            optimizer = optimizers.Adam(0.01, epsilon=1e-3)
            optimizer.build(model.trainable_variables)
        batches = distribution.distribute(strategy, two_replicas.dataset().take(2))
        spec = None if jit_compile else batches.element_spec
        step = train_step.make_train_step(model, optimizer, strategy, spec, jit_compile)
        for batch in batches:
            step(batch)
        values.append([variable.numpy() for variable in model.variables])
    return max(float(np.abs(a - b).max()) for a, b in zip(*values, strict=True))


def _epoch(data_dir, number):
    settings = input_pipeline.InputSettings(batch_size=48, max_length=32, batch_shuffle_size=8)
    files = tfrecords.find(data_dir, "toy", "train")
    # The batches of one device are as large as the batches of two replicas together.
    return input_pipeline.make_batches(
        files, _SPECS, settings, True, 2, seed=lambda passed: number + passed
    )


def _train_from_files(make_model, make_optimizer, strategy, data_dir):
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = make_model()
        optimizer = make_optimizer()
        optimizer.build(model.trainable_variables)
    batches = epochs.Epochs(lambda number: _epoch(data_dir, number), strategy)
    step = train_step.make_train_step(model, optimizer, strategy, batches.element_spec)
    losses = []
    for number in range(_STEPS):
        if number == 3:  # The run resumes from this position, as after an interruption.
            batches.write_position()
            batches.read_position()
        losses.append(float(step(next(batches)).loss))
    return {
        "losses": losses,
        "weights": [v.numpy().ravel().tolist() for v in model.trainable_variables],
        "traces": step.experimental_get_tracing_count(),
    }


def _rows(strategy, data_dir):
    """Return the (inputs, targets) of this worker in the batches of an epoch.

    The results have three keys:

    - "own": the worker read only its own examples.
    - "read": the number of records in each of these reads.
    - "cut": the worker read all examples and selected its own examples.
    """
    passes = _epoch(data_dir, 0)
    counted = []
    plain = record_index.RecordIndex.read

    def read(self, numbers):
        counted.append(len(numbers))
        return plain(self, numbers)

    record_index.RecordIndex.read = read

    def one_pass(part):
        # The worker has only one replica, which needs one slice of each batch.
        return passes.batches_from(part=part).take(passes.num_batches)

    own = _local(strategy, distribution.distribute_parts(strategy, one_pass))
    record_index.RecordIndex.read = plain
    cut = _local(strategy, distribution.distribute(strategy, one_pass(None)))
    return {"own": own, "read": counted, "cut": cut}


def _local(strategy, distributed):
    batches = []
    for inputs, targets in distributed:
        local = [strategy.experimental_local_results(x)[0] for x in (inputs["inputs"], targets)]
        batches.append([tensor.numpy().tolist() for tensor in local])
    return batches


def _agreed(strategy):
    chief = distribution.is_chief(strategy)
    return [
        chief,
        distribution.from_chief(strategy, 5 if chief else 7),
        distribution.any_worker(strategy, not chief),
        distribution.any_worker(strategy, False),
        distribution.is_same_on_all_workers(strategy, 3),
        distribution.is_same_on_all_workers(strategy, 3 if chief else 4),
    ]


def main():
    strategy = distribution.get_strategy(cluster=cluster.from_environment())
    json.dump(train_all(strategy, sys.argv[1]), sys.stdout)


if __name__ == "__main__":
    main()
