"""Compares the signatures of a LiteRT model with the original functions.

    litert_check.check(content, signatures, random_source, vocab_size=32, num_positions=40)

`converted_outputs` compares one function. This module also makes the inputs of the signature
`step`: the outputs of the signature `encode` or `start`, and of earlier steps.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ut_keras.ops import converted_outputs, litert_file


def check(
    content: bytes,
    signatures: Mapping[str, Callable[..., Any]],
    random_source: Callable[[np.random.Generator], dict[str, np.ndarray]],
    vocab_size: int,
    num_positions: int,
) -> None:
    """Raise `ValueError` if a signature of a LiteRT model computes other outputs.

    Args:
        content: bytes, the content of a `.tflite` file.
        signatures: dict from the name of a signature to the function that was converted.
        random_source: function from a generator of random numbers to a dict of arrays, the inputs
            of every signature except `step`.
        vocab_size: int, the number of ids of the targets.
        num_positions: int, the number of positions of a cache.
    """
    for name in signatures:
        if name != "step":
            _check_signature(content, signatures, name, random_source)
    if "step" not in signatures:
        return
    start = signatures["encode" if "encode" in signatures else "start"]
    state = _outputs(start, random_source(np.random.default_rng(seed=1)))
    state.pop("states", None)  # `step` does not read the encoder's output
    for position in sorted({0, min(1, num_positions - 1), num_positions - 1}):
        random_inputs = _step_inputs(state, position, vocab_size)
        _check_signature(content, signatures, "step", random_inputs)
        state.update(_outputs(signatures["step"], random_inputs(np.random.default_rng(seed=2))))
        del state["logits"]


def _step_inputs(state, position, vocab_size):
    """Return a function from a generator of random numbers to the inputs of `step`.

    The symbol is the previous token. At position 0, it is always 0.
    """

    def random_inputs(generator):
        symbol = generator.integers(0, vocab_size if position else 1, [1], dtype=np.int32)
        return {**state, "symbol": symbol, "position": np.array([position], np.int32)}

    return random_inputs


def _check_signature(content, signatures, name, random_inputs):
    run = litert_file.runner(content, name)
    converted_outputs.check("LiteRT", signatures[name], run, random_inputs)


def _outputs(function, inputs):
    """Return the outputs of a function, as a dict of arrays."""
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    return {name: value.numpy() for name, value in function(**tensors).items()}
