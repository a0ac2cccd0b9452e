"""Run `model.fit` on one and on several logical CPUs, and print the results as JSON.

fit_two_replicas_test.py runs this program in a new process for two and for three devices, because
TensorFlow confuses the collective operations of two strategies in one process. A strategy of one
device has no collective operations.

    python -m tests.training.fit_two_replicas 1,2 universal uneven
"""

import json
import logging
import logging.handlers
import sys

import keras
import numpy as np
import tensorflow as tf

from tests.training import toy, two_replicas
from ut_keras import hparams, models, optimizers
from ut_keras.layers.basic import dropout
from ut_keras.metrics import keras_metrics
from ut_keras.training import distribution

_HPARAMS = two_replicas.HPARAMS + ",clip_grad_norm=0.5,label_smoothing=0.1"
ROWS = (5, 3, 4, 1)  # numbers of examples per batch, not all divisible by the replicas


def _even():
    # Every replica has examples, but the replicas have different numbers of tokens.
    return two_replicas.dataset().take(3)


def _batches():
    random = np.random.RandomState(1)
    for rows in ROWS:
        ids = random.randint(2, toy.VOCAB_SIZE, (rows, 7)).astype("int32")
        ids *= np.arange(7) < random.randint(1, 8, (rows, 1))
        # The first example of each batch has weight 0. The last batch has only one example, so the
        # sum of its weights is 0.
        weights = random.uniform(0, 2, (rows, 7)).astype("float32") * (np.arange(rows) > 0)[:, None]
        yield {"inputs": ids, "targets": ids}, ids, weights


def _uneven():
    spec = tf.TensorSpec((None, None), tf.int32)
    specs = ({"inputs": spec, "targets": spec}, spec, tf.TensorSpec((None, None)))
    return tf.data.Dataset.from_generator(_batches, output_signature=specs)


def _model(name, hparams_set="universal_transformer_tiny"):
    hp = hparams.get(hparams_set, _HPARAMS)
    return models.get(name, hp, vocab_sizes={"inputs": 8, "targets": 8})


def _fit(name, hparams_set, dataset, strategy):
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = _model(name, hparams_set)
        model.compile(
            optimizer=optimizers.Adam(0.01, clip_grad_norm=0.5, epsilon=1e-3),
            weighted_metrics=[keras_metrics.SumOverCount("neg_log_perplexity")],
        )
    # This callback reads the learning rate, but its patience is too long to change the rate.
    no_plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=9)
    history = model.fit(dataset, epochs=2, callbacks=[no_plateau], verbose=0)
    evaluated = model.evaluate(dataset, verbose=0, return_dict=True)
    copies = [strategy.experimental_local_results(v.value) for v in model.trainable_variables]
    counts = strategy.experimental_local_results(model.optimizer.iterations.value)
    return {
        "replicas": strategy.num_replicas_in_sync,
        "iterations": [int(count) for count in counts],
        "largest_difference_of_replicas": max(
            float(np.max(np.abs(each[0].numpy() - each[-1].numpy()))) for each in copies
        ),
        "loss": [*history.history["loss"], evaluated["loss"]],
        "metric": [*history.history["neg_log_perplexity"], evaluated["neg_log_perplexity"]],
        "predicted": model.predict(dataset.take(1), verbose=0).ravel().tolist(),
        "weights": [v.numpy().ravel().tolist() for v in model.trainable_variables],
        "masks": _masks(strategy),
    }


def _masks(strategy):
    """Apply dropout to 64 ones in each replica and return the results.

    Each result has the masks of two layers, whose seeds are consecutive numbers.
    """
    with strategy.scope():
        layers = [dropout.Dropout(0.5, seed=seed) for seed in (1, 2)]
    ones = tf.ones([64])
    masks = strategy.run(
        tf.function(lambda: tf.stack([layer(ones, training=True) for layer in layers]))
    )
    return [mask.numpy().tolist() for mask in strategy.experimental_local_results(masks)]


def _loss_of_a_model_that_fit_compiles():
    strategy = distribution.get_strategy(devices=["CPU:0", "CPU:1"])
    with strategy.scope():
        model = _model("universal_transformer_encoder")
    return model.fit(_even(), verbose=0).history["loss"]


def _log_lines():
    """Return what `fit` logs for a dataset whose inputs are padded on the left."""
    records = logging.handlers.BufferingHandler(capacity=1000)
    log = logging.getLogger("ut_keras")
    log.addHandler(records)
    ids = np.array([[0, 3, 1], [4, 5, 1]])
    dataset = tf.data.Dataset.from_tensors(({"inputs": ids, "targets": ids}, ids))
    with distribution.get_strategy(devices=["CPU:0", "CPU:1"]).scope():
        model = _model("universal_transformer_encoder")
    model.fit(dataset, verbose=0)
    log.removeHandler(records)
    return [record.getMessage() for record in records.buffer]


def _keras_errors():
    with distribution.get_strategy(devices=["CPU:0", "CPU:1"]).scope():
        model = _model("universal_transformer_encoder")
        adam = keras.optimizers.Adam(gradient_accumulation_steps=4)
        ema = optimizers.Adam(use_ema=True, ema_overwrite_frequency=3)
    for settings in ({"steps_per_execution": 2}, {"optimizer": adam}, {"optimizer": ema}):
        try:
            with model.distribute_strategy.scope():
                model.compile(**settings)
            model.fit(_even(), verbose=0)
        except ValueError as error:
            yield str(error)


def _central_storage_errors():
    strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")
    with strategy.scope():
        model = _model("universal_transformer_encoder")
        model.compile("sgd")
    for method in (model.fit, model.evaluate):
        try:
            method(_even(), verbose=0)
        except ValueError as error:
            yield str(error)


CASES = {
    "universal": ("universal_transformer", "universal_transformer_tiny", _even),
    "uneven": ("universal_transformer_encoder", "adaptive_universal_transformer_tiny", _uneven),
}


def main(numbers, names):
    """Print {name: {number of replicas: results}} for several numbers of replicas."""
    devices = [f"CPU:{index}" for index in range(max(numbers))]
    cpu = tf.config.list_physical_devices("CPU")[0]
    configuration = [tf.config.LogicalDeviceConfiguration()] * len(devices)
    tf.config.set_logical_device_configuration(cpu, configuration)
    results = {}
    for name in names:
        model, hparams_set, make_dataset = CASES[name]
        results[name] = {
            number: _fit(
                model,
                hparams_set,
                make_dataset(),
                distribution.get_strategy(devices=devices[:number]),
            )
            for number in numbers
        }
    if "universal" in names:
        results["made by fit"] = _loss_of_a_model_that_fit_compiles()
        results["log"] = _log_lines()
        results["refusals"] = list(_keras_errors())
        results["central storage"] = list(_central_storage_errors())
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main([int(number) for number in sys.argv[1].split(",")], sys.argv[2:])
