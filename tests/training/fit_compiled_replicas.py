"""Run `model.fit` with and without XLA on two logical CPUs, and print the results as JSON.

fit_compiled_replicas_test.py runs this program in a new process, because a program must create
logical devices before TensorFlow does anything else.
"""

import json
import logging
import sys

import keras
import numpy as np
import tensorflow as tf

from tests.training import two_replicas
from ut_keras import optimizers
from ut_keras.models import universal_transformer
from ut_keras.ops import devices
from ut_keras.training import distribution

_LINES: list[str] = []


class NumpyModel(universal_transformer.UniversalTransformerEncoder):
    """A model with an operation that XLA does not compile."""

    def forward(self, features, training=None, **options):
        out = super().forward(features, training, **options)
        zeros = tf.numpy_function(lambda x: 0 * x, [out.logits], tf.float32)
        zeros.set_shape(out.logits.shape)
        return out._replace(logits=out.logits + tf.stop_gradient(zeros))


class _Lines(logging.Handler):
    def emit(self, record):
        _LINES.append(record.getMessage())


def _universal():
    return two_replicas.encoder("universal_transformer_tiny", two_replicas.HPARAMS)


def _not_compiled():
    made = _universal()
    return NumpyModel.from_hparams(made.hparams, made.specs)


def _data(rows):
    """Return examples of different lengths."""
    random = np.random.RandomState(1)
    ids = random.randint(2, 8, (rows, 7)).astype("int32")
    ids *= np.arange(7) < random.randint(1, 8, (rows, 1))
    return {"inputs": ids, "targets": ids}, ids


def _fit(make_model, jit_compile, loss=None):
    _LINES.clear()
    keras.utils.set_random_seed(0)
    with distribution.get_strategy(devices=["CPU:0", "CPU:1"]).scope():
        model = make_model()
        adam = optimizers.Adam(0.01, clip_grad_norm=0.5, epsilon=1e-3)
        model.compile(adam, loss, jit_compile=jit_compile)
    # The last two of ten examples form a smaller batch, for which XLA compiles the update again. A
    # model with two segments has two updates to compile, so it gets only one kind of batch.
    features, targets = _data(4 if make_model is two_replicas._segmented_model else 10)
    options = {"batch_size": 4, "verbose": 0}
    try:
        history = model.fit(features, targets, epochs=2, shuffle=False, **options)
    except ValueError as error:
        return {"error": f"{error}"}
    evaluated = {}
    if jit_compile != "auto":  # "auto" compiles only the update
        evaluated = model.evaluate(features, targets, return_dict=True, **options)
    return {
        "history": history.history,
        "evaluated": evaluated,
        "lines": list(_LINES),
        "iterations": int(keras.ops.convert_to_numpy(model.optimizer.iterations)),
        "weights": [v.numpy().ravel().tolist() for v in model.trainable_variables],
        "replica_difference": two_replicas._replica_difference(
            [*model.trainable_variables, *model.optimizer.variables]
        ),
    }


CASES = {
    "without_xla": (_universal, False),
    "auto": (_universal, "auto"),
    "xla": (_universal, True),
    "not_compiled": (_not_compiled, False),
    "fallback": (_not_compiled, "auto"),
    "own_loss": (_universal, True, "sparse_categorical_crossentropy"),
    "own_loss_auto": (_universal, "auto", "sparse_categorical_crossentropy"),
    "segments": (two_replicas._segmented_model, False),
    "segments_auto": (two_replicas._segmented_model, "auto"),
}


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    devices.has_gpu = lambda: True
    logger = logging.getLogger("ut_keras")
    logger.setLevel(logging.INFO)
    logger.addHandler(_Lines())
    json.dump({name: _fit(*case) for name, case in CASES.items()}, sys.stdout)


if __name__ == "__main__":
    main()
