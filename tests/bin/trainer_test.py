import types

import pytest
import tensorflow as tf

from ut_keras.bin import trainer
from ut_keras.training.distribution import WorkerLost


@pytest.mark.parametrize(
    "cluster, error", [("two", WorkerLost), (None, tf.errors.UnavailableError)]
)
def test_a_worker_lost_before_the_first_step(monkeypatch, cluster, error):
    def lost(setup):
        raise tf.errors.UnavailableError(None, None, "Connection reset by peer")

    monkeypatch.setattr(trainer, "_make_trainer", lost)
    with pytest.raises(error):
        trainer.make_trainer(types.SimpleNamespace(cluster=cluster))
