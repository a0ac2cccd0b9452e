"""Runs a `.tflite` file in LiteRT's interpreter.

run = litert_file.runner(content, "generate")
run({"inputs": source})["outputs"]
"""

import warnings
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from ut_keras import process


class NeedsTensorFlowError(ValueError):
    """The file contains operations of TensorFlow, which the interpreter does not have."""


def runner(
    content: bytes, signature: str | None = None
) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
    """Return a function that runs a signature.

    The returned function maps a dict of arrays to a dict of arrays. It raises `ValueError` if the
    interpreter cannot run the model. It raises the subclass `NeedsTensorFlowError` if the model
    contains operations of TensorFlow ("Flex").

    Args:
        content: bytes, the content of a file.
        signature: str, the name of the signature. It may be None if the file has one signature.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow recommends another package for the runtime
        interpreter = tf.lite.Interpreter(model_content=content)

    def run(inputs):
        with process.silent_stderr():  # LiteRT names the library that it computes with
            try:
                return interpreter.get_signature_runner(signature)(**inputs)
            except RuntimeError as error:
                reason = str(error).strip().partition("\n")[0].removesuffix(".")
                is_flex = "Select TensorFlow op" in reason
                raise (NeedsTensorFlowError if is_flex else ValueError)(
                    f"LiteRT must be able to run the model. Received: {reason}. The converter may "
                    "have changed an operation, for example in a part of your own. Export a "
                    "SavedModel instead."
                ) from error

    return run
