"""Check that a converted model computes the same outputs as the model.

    converted_outputs.check("ONNX", function, run, [1, 32], vocab_size)

Some operations compute other results after the conversion, and the converters raise no error. For
example, the ONNX file of `tf.where(x > 0, tf.sqrt(x), 0.0)` returns NaN for negative numbers.
"""

import contextlib
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from ut_keras.decoding.beam_search import EOS

_MOST_SOURCES = 3


def check(
    runtime: str,
    function: Callable[..., Mapping[str, tf.Tensor]],
    run: Callable[[np.ndarray], Mapping[str, np.ndarray]],
    shape: list[int],
    vocab_size: int,
) -> None:
    """Compare the outputs of a model and of its conversion for random sources.

    If two tokens have almost equal probabilities, the outputs may differ for one source. Therefore
    the check passes if the outputs are equal for one of three sources.

    Args:
        runtime: str, the name of the runtime in errors.
        function: the function that was converted. It maps an int32 tensor of shape `shape` to a
            dict.
        run: function that runs the converted model. It maps an int32 array of shape `shape` to a
            dict.
        shape: list of ints, the shape of a source.
        vocab_size: int, the number of ids.

    Raises:
        ValueError: if the outputs differ for each source. A model whose outputs differ in each call
            raises no error.
    """
    generator = np.random.default_rng(seed=0)
    with _without_tensor_float_32():
        for _ in range(_MOST_SOURCES):
            source = _random_source(generator, shape, vocab_size)
            expected = _outputs(function, source)
            different = _different_outputs(expected, run(source))
            if not different:
                return
        if _different_outputs(expected, _outputs(function, source)):
            return  # the model itself computes other outputs in each call, for example with noise
    raise ValueError(
        f"The model for {runtime} must compute the same outputs as in TensorFlow. Received: other "
        f"{' and '.join(different)} for random ids. The converter has changed an operation, for "
        "example in a part of your own. Export a SavedModel instead."
    )


@contextlib.contextmanager
def _without_tensor_float_32():
    """Return a context in which GPUs compute products in full float32.

    By default, TensorFlow rounds the factors of a matrix product on a GPU to 10 bits.
    """
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)


def _outputs(function, source):
    return {name: value.numpy() for name, value in function(tf.constant(source)).items()}


def _random_source(generator, shape, vocab_size):
    """Return random ids. The last dimension ends with EOS and padding."""
    source = generator.integers(min(2, vocab_size - 1), vocab_size, shape, dtype=np.int32)
    length = -(-2 * shape[-1] // 3)  # two thirds, rounded up
    source[..., length - 1] = min(EOS, vocab_size - 1)
    source[..., length:] = 0
    return source


def _different_outputs(expected, found):
    """Return the names of the outputs that differ by more than rounding errors.

    Ids must be equal.
    """

    def are_equal(one, other):
        if np.issubdtype(one.dtype, np.integer):
            return np.array_equal(one, other)
        return np.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)

    return [name for name, value in expected.items() if not are_equal(value, found[name])]
