"""`model.fit` on one and on two logical CPUs; prints what came out, as JSON.

Run by fit_two_replicas_test.py in a process of its own, as two_replicas.py is.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import hparams
from tests.training import two_replicas
from ut_keras import models
from ut_keras.training import distribution, optimize

_HPARAMS = two_replicas.HPARAMS + ",clip_grad_norm=0.5,label_smoothing=0.1"


def _fit(hparams_set, strategy):
    keras.utils.set_random_seed(0)
    hp = hparams.get(hparams_set, _HPARAMS)
    with strategy.scope():
        model = models.get("universal_transformer", hp, vocab_sizes={"inputs": 8, "targets": 8})
        model.compile(optimizer=optimize.Adam(0.01, clip_grad_norm=0.5, epsilon=1e-3))
    # Every replica has rows, but tokens unequally.
    dataset = two_replicas.dataset().take(3)
    history = model.fit(dataset, epochs=2, verbose=0)
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
        "weights": [v.numpy().ravel().tolist() for v in model.trainable_variables],
    }


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategies = [
        distribution.get_strategy(devices=["CPU:0"]),
        distribution.get_strategy(devices=["CPU:0", "CPU:1"]),
    ]
    sets = ("universal_transformer_tiny", "adaptive_universal_transformer_tiny")
    json.dump({name: [_fit(name, each) for each in strategies] for name in sets}, sys.stdout)


if __name__ == "__main__":
    main()
