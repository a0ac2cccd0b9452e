"""Train two replicas with and without XLA on two logical CPUs, and print the results as JSON.

compiled_replicas_test.py runs this program in a new process, because a program must create logical
devices before TensorFlow does anything else.
"""

import json
import sys

import keras
import tensorflow as tf

from tests.training import shape_update_test, toy, two_replicas
from ut_keras import errors, optimizers
from ut_keras.training import distribution, shape_update, train_step

_WITH_DROPOUT = two_replicas.HPARAMS.replace("dropout=0.0", "dropout=0.1")


def _adaptive_model_with_dropout():
    return two_replicas.encoder("adaptive_universal_transformer_tiny", _WITH_DROPOUT)


class MovingAverage(keras.layers.Layer):
    """A layer that adds a moving average of its inputs."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def build(self, shape):
        self.mean = self.add_weight(
            shape=(shape[-1],), initializer="zeros", trainable=False, name="mean", **self.options
        )

    def call(self, x, training=None):
        if training:
            self.mean.assign(0.9 * self.mean + tf.reduce_mean(x, [0, 1]))
        return x + 0.1 * self.mean.value


class PlainVariable(MovingAverage):
    """The same layer with a `tf.Variable`, which Keras does not know as a weight."""

    def build(self, shape):
        self.mean = tf.Variable(tf.zeros(shape[-1:]), trainable=False, name="plain")

    def call(self, x, training=None):
        self.mean.assign(0.9 * self.mean + tf.reduce_mean(x, [0, 1]))
        return x + 0.1 * self.mean


class _NormalizedModel(toy.ToyModel):
    """A model with layers whose states are changed by the forward pass in training."""

    def __init__(self, *make_layers):
        super().__init__()
        self.own_layers = [make() for make in make_layers]
        for layer in self.own_layers:
            layer.build((None, None, 16))

    def forward(self, features, training=None):
        state = tf.gather(self.table.value, features["inputs"])
        for layer in self.own_layers:
            state = layer(state, training=training)
        ponder = toy.ToyStack(tf.where(features["inputs"] != 0, 2.0, 9.0))
        return toy.ToyOutput(self.head(state), ponder, None)


def _states(model):
    """Return the states of each replica."""
    states = [v.value for v in model.non_trainable_variables]
    states += [getattr(layer, "mean", None) for layer in getattr(model, "own_layers", ())]
    return [
        [value.numpy().ravel().tolist() for value in state.values]
        for state in states
        if isinstance(state, tf.distribute.DistributedValues)
    ]


def train(make_model, jit_compile):
    """Train a model on two logical CPUs, and return the results."""
    strategy = distribution.get_strategy(devices=["CPU:0", "CPU:1"])
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = make_model()
        optimizer = optimizers.Adam(0.01, clip_grad_norm=0.5, l2_rate=1e-3, epsilon=1e-3)
        optimizer.build(model.trainable_variables)

    batches = distribution.distribute(strategy, two_replicas.dataset().take(4))

    def make(compiles):
        element_spec = None if compiles else batches.element_spec
        return train_step.make_train_step(model, optimizer, strategy, element_spec, compiles)

    lines = []
    step = make(jit_compile)
    if jit_compile:
        step = shape_update.ShapeUpdate(step, lambda: make(False), lines.append)
    results = [step(batch) for batch in batches]
    numbers = ("loss", "correct", "tokens", "sequences", "ponder_sum")
    powers = None
    if not jit_compile:
        graph = step.get_concrete_function(next(iter(batches))).graph
        powers = [operation.type for operation in graph.get_operations()].count("Pow")
    return {
        "powers": powers,
        "lines": lines,
        "iterations": int(keras.ops.convert_to_numpy(optimizer.iterations)),
        "results": [[float(getattr(result, name)) for name in numbers] for result in results],
        "weights": [v.numpy().ravel().tolist() for v in model.trainable_variables],
        "seeds": [
            v.numpy().ravel().tolist()
            for v in model.non_trainable_variables
            if not tf.as_dtype(v.dtype).is_floating
        ],
        "states": _states(model),
        "replica_difference": two_replicas._replica_difference(
            [*model.trainable_variables, *optimizer.variables]
        ),
    }


RUNS = {
    "toy": toy.ToyModel,
    "segmented": two_replicas._segmented_model,
    "dropout": _adaptive_model_with_dropout,
    "not_compiled": shape_update_test._NumpyModel,
    "normalized": lambda: _NormalizedModel(keras.layers.BatchNormalization, MovingAverage),
    "summed": lambda: _NormalizedModel(lambda: MovingAverage(aggregation="mean")),
    "sums": lambda: _NormalizedModel(lambda: keras.layers.BatchNormalization(synchronized=True)),
    "plain_variable": lambda: _NormalizedModel(PlainVariable),
}


def _error_of_xla(make_model):
    """Return the error of one update with XLA and without a fallback."""
    strategy = distribution.get_strategy(devices=["CPU:0", "CPU:1"])
    with strategy.scope():
        model = make_model()
        optimizer = optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)
    step = train_step.make_train_step(model, optimizer, strategy, None, True)
    batches = distribution.distribute(strategy, two_replicas.dataset().take(1))
    try:
        step(next(iter(batches)))
    except errors.UsageError as error:
        return f"{error}"
    return ""


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    runs = {
        name: [train(make, compiles) for compiles in (False, True)] for name, make in RUNS.items()
    }
    runs["error"] = _error_of_xla(RUNS["plain_variable"])
    json.dump(runs, sys.stdout)


if __name__ == "__main__":
    main()
