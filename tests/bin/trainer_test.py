import types

import pytest
import tensorflow as tf

from ut_keras.bin import trainer, trainer_setup


@pytest.mark.parametrize("cluster", ["two", None])
def test_lost_worker_outside_training_is_reported(monkeypatch, capsys, cluster):
    def lost(*datasets):
        raise tf.errors.UnavailableError(None, None, "Connection reset by peer")

    setup = types.SimpleNamespace(cluster=cluster, writes=False, schedule="evaluate")
    made = (types.SimpleNamespace(evaluate=lost), None, None)
    monkeypatch.setattr(trainer_setup, "check", lambda args: setup)
    monkeypatch.setattr(trainer, "make_trainer", lambda setup: made)
    if cluster:
        assert trainer.main([]) == 75
        assert "Lost the connection to another worker. Run" in "".join(capsys.readouterr())
    else:
        with pytest.raises(tf.errors.UnavailableError):
            trainer.main([])
