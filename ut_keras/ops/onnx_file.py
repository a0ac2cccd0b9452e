"""Runs an ONNX file in onnxruntime, and names an unsupported operation.

If an operation has no equivalent in ONNX, the converter copies the operation into the file
unchanged, and only logs its name.
"""

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np


def runner(model: bytes | str) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
    """Return a function that runs a model.

    The returned function maps a dict of arrays to a dict of arrays. It raises `ValueError` if
    onnxruntime cannot run the model.

    Args:
        model: bytes, the content of an ONNX file; or str, the path of the file.

    Raises:
        ValueError: if onnxruntime cannot load the model.
    """
    onnxruntime = importlib.import_module("onnxruntime")
    with _one_line_errors("ONNX must support all operations of the model."):
        session = onnxruntime.InferenceSession(model)
    names = [output.name for output in session.get_outputs()]
    used = [argument.name for argument in session.get_inputs()]

    def run(inputs):
        with _one_line_errors("onnxruntime must be able to run the model."):
            values = session.run(names, {name: inputs[name] for name in used})
        return dict(zip(names, values, strict=True))

    return run


@contextlib.contextmanager
def _one_line_errors(expected: str) -> Iterator[None]:
    """Context that converts each error of onnxruntime to a `ValueError` of one line."""
    try:
        yield
    except Exception as error:  # onnxruntime has no common class for its errors
        found = re.search(r"No Op registered for (\w+)", str(error))
        what = found[1] if found else str(error).strip().partition("\n")[0]
        raise ValueError(f"{expected} Received: {what}.") from error
