import tensorflow as tf

from ut_keras.ops import compiled


def _trace(compile_function, caplog):
    """Trace eight functions with the same code. Return whether TensorFlow warns of retracing."""
    caplog.clear()
    for _ in range(8):

        def run(x):
            return x + 1

        compile_function(run, [tf.TensorSpec([None], tf.int32)])(tf.constant([1]))
    return "retracing" in caplog.text


def test_functions_of_several_objects_cause_no_retracing_warning(caplog):
    assert _trace(lambda run, spec: tf.function(run, input_signature=spec), caplog)
    assert not _trace(compiled.function, caplog)
