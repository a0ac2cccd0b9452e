import pytest
import tensorflow as tf

from ut_keras.models import auto_xla


def test_train_function_falls_back_after_an_interruption(caplog):
    """If Ctrl-C ends the first compilation, the next call can still continue without XLA."""
    errors = [KeyboardInterrupt(), tf.errors.InvalidArgumentError(None, None, "not supported")]

    def compiled(iterator):
        raise errors.pop(0)

    def without_xla():
        return lambda iterator: [int(batch) for batch in iterator]

    function = auto_xla.TrainFunctionWithFallback(compiled, without_xla)
    batches = tf.data.Dataset.range(3)
    with pytest.raises(KeyboardInterrupt):
        function(iter(batches))
    assert function(iter(batches)) == [0]
    assert "training without XLA, because XLA cannot compile" in caplog.text
