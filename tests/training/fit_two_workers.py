"""Call Keras methods of a model on one of two workers, and print their errors as JSON.

    TF_CONFIG=… python -m tests.training.fit_two_workers FOLDER

The workers use files in FOLDER to wait for each other at the end. two_workers_test.py runs this
program.
"""

import json
import os
import pathlib
import sys
import time

import numpy as np
import tensorflow as tf

from ut_keras import hparams, models

_OVERRIDES = "hidden_size=8,filter_size=8,num_heads=2,num_rec_steps=1"


def raised():
    """Return {method: [class of the exception, message]}, with None for a successful method."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        hp = hparams.get("universal_transformer_tiny", _OVERRIDES)
        model = models.get("universal_transformer", hp, vocab_sizes={"inputs": 9, "targets": 9})
        model.compile()
    ids = np.full((4, 3), 2, np.int32)
    x = {"inputs": ids, "targets": ids}
    return {
        name: _error(getattr(model, name), x, ids, **options)
        for name, options in {
            "fit": {"batch_size": 4, "verbose": 0},
            "evaluate": {"batch_size": 4, "verbose": 0},
            "train_on_batch": {},
            "test_on_batch": {},
        }.items()
    }


def _error(method, *args, **options):
    try:
        method(*args, **options)
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None


def _wait_for_both_workers(folder):
    """Wait until both workers have called all methods, for at most a minute.

    A worker that ends early can interrupt the other worker while it still receives the initial
    values of variables.
    """
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    (folder / f"finished-{index}").touch()
    deadline = time.monotonic() + 60
    while len(list(folder.glob("finished-*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)


if __name__ == "__main__":
    json.dump(raised(), sys.stdout)
    sys.stdout.flush()
    _wait_for_both_workers(pathlib.Path(sys.argv[1]))
