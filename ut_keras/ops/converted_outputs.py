"""Check that a converted model computes the same outputs as the model.

    def random_inputs(generator):
        return {"inputs": converted_outputs.random_ids(generator, [1, 32], vocab_size)}

    converted_outputs.check("ONNX", function, run, random_inputs)

Some operations compute other results after the conversion, and the converters raise no error. For
example, the ONNX file of `tf.where(x > 0, tf.sqrt(x), 0.0)` returns NaN for negative numbers.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

_EOS = 1  # the EOS id of T2T
_MOST_INPUTS = 3


def check(
    runtime: str,
    function: Callable[..., Mapping[str, tf.Tensor]],
    run: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]],
    random_inputs: Callable[[np.random.Generator], Mapping[str, np.ndarray]],
) -> None:
    """Compare the outputs of a model and of its conversion for random inputs.

    If two tokens have almost equal probabilities, the outputs may differ for one input. Therefore
    the check passes if the outputs are equal for one of three inputs.

    Args:
        runtime: str, the name of the runtime in errors.
        function: the function that was converted. Its keyword arguments are tensors, and it returns
            a dict of tensors.
        run: function that runs the converted model. It maps a dict of arrays to a dict of arrays.
        random_inputs: function from a generator of random numbers to a dict of arrays.

    Raises:
        ValueError: if the outputs differ for each input. If the outputs of the model itself differ
            in each call, the function raises no error.
    """
    generator = np.random.default_rng(seed=0)
    with without_tensor_float_32():
        for _ in range(_MOST_INPUTS):
            inputs = random_inputs(generator)
            expected = _outputs(function, inputs)
            different = _different_outputs(expected, run(inputs))
            if not different:
                return
        if _different_outputs(expected, _outputs(function, inputs)):
            return  # the outputs of the model itself differ in each call, for example with noise
    raise ValueError(
        f"The model for {runtime} must compute the same outputs as in TensorFlow. Received: other "
        f"{' and '.join(different)} for random ids. The converter has changed an operation, for "
        "example in a part of your own. Export a SavedModel instead."
    )


def random_ids(generator: np.random.Generator, shape: Sequence[int], vocab_size: int) -> np.ndarray:
    """Return random ids with padding, EOS and the last id of the vocabulary.

    The sequences 0, 2, 4, … end with EOS and padding. The sequences 1, 3, 5, … end with EOS, and
    have no padding. Sequence 0 contains the last id. EOS may also occur before the end.

    Args:
        generator: the generator of random numbers.
        shape: sequence of ints. The last axis is the position in a sequence.
        vocab_size: int, the number of ids.

    Returns:
        int32 array of the given shape.
    """
    ids = generator.integers(min(_EOS, vocab_size - 1), vocab_size, shape, dtype=np.int32)
    padded = -(-2 * shape[-1] // 3)  # two thirds, rounded up
    ids.reshape(-1)[0] = vocab_size - 1
    for row, sequence in enumerate(ids.reshape(-1, shape[-1])):
        length = shape[-1] if row % 2 else padded
        sequence[length - 1] = min(_EOS, vocab_size - 1)
        sequence[length:] = 0
    return ids


@contextlib.contextmanager
def without_tensor_float_32() -> Iterator[None]:
    """Context in which GPUs compute products in full float32.

    By default, TensorFlow rounds the factors of a matrix product on a GPU to 10 bits.
    """
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)


def _outputs(function, inputs):
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    return {name: value.numpy() for name, value in function(**tensors).items()}


def _different_outputs(expected, found):
    """Return the names of the outputs that differ by more than rounding errors.

    Ids must be equal.
    """

    def are_equal(one, other):
        if np.shape(one) != np.shape(other):
            return False
        if np.issubdtype(one.dtype, np.integer):
            return np.array_equal(one, other)
        # Rounding errors grow with the values. The maximum excludes masked values, such as -1e7.
        sizes = np.abs(one)
        tolerance = 1e-4 * np.max(sizes, initial=1.0, where=sizes < 1e4)
        return np.allclose(one, other, rtol=1e-3, atol=tolerance, equal_nan=True)

    return [name for name, value in expected.items() if not are_equal(value, found[name])]
