"""Checks that onnxruntime can run an ONNX file.

If an operation has no equivalent in ONNX, the converter copies the operation into the file
unchanged, and only logs its name.
"""

import importlib
import re
from collections.abc import Mapping
from typing import Any


def check(model: bytes | str, inputs: Mapping[str, Any] | None = None) -> None:
    """Raise `ValueError` if onnxruntime cannot load or run a model.

    Args:
        model: bytes, the content of an ONNX file; or str, the path of the file.
        inputs: dict of arrays. None: the model is only loaded, which checks its operations.
    """
    onnxruntime = importlib.import_module("onnxruntime")
    try:
        session = onnxruntime.InferenceSession(model)
        if inputs is not None:
            session.run(None, inputs)
    except Exception as error:  # onnxruntime has no common class for its errors
        found = re.search(r"No Op registered for (\w+)", str(error))
        what = found[1] if found else str(error).strip().partition("\n")[0]
        raise ValueError(
            f"ONNX must support all operations of the model. Received: {what}."
        ) from error
