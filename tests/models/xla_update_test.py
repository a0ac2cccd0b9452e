import pytest
import tensorflow as tf

from ut_keras.models import xla_update


@pytest.mark.parametrize("later", ["fit", "train_on_batch"])
def test_train_function_falls_back_after_an_interruption(later, caplog):
    """If Ctrl-C ends the first compilation, the next call can still continue without XLA.

    Keras passes the iterator of a dataset in `fit`, and a generator in `train_on_batch`.
    """
    errors = [KeyboardInterrupt(), tf.errors.InvalidArgumentError(None, None, "not supported")]

    def compiled(iterator):
        raise errors.pop(0)

    def without_xla():
        return lambda iterator: [int(batch) for batch in iterator]

    function = xla_update.TrainFunctionWithFallback(compiled, without_xla)
    batches = tf.data.Dataset.range(3)
    with pytest.raises(KeyboardInterrupt):
        function(iter(batches))
    iterator = iter(batches) if later == "fit" else (batch for batch in batches)
    assert function(iterator) == [0]
    assert "training without XLA, because XLA cannot compile" in caplog.text
