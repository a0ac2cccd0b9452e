"""Serve an export over HTTP in the form of TensorFlow Serving's REST API.

python docs/examples/rest_server.py served/reverse reverse --port=8501
curl -d '{"instances": ["3 1 4 1 5"]}' http://localhost:8501/v1/models/reverse:predict
"""

import argparse
import base64
import json
import os

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  this import registers the operations of subword models
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

ERRORS = (ValueError, TypeError, KeyError, AttributeError, OverflowError, tf.errors.OpError)


def make_app(folder, name):
    """Return the application for the highest version in a folder, such as served/reverse."""
    version = max(filter(str.isdigit, os.listdir(folder)), key=int)
    model = tf.saved_model.load(os.path.join(folder, version))

    def predict(body):
        function = model.signatures[body.get("signature_name", "serving_default")]
        specs = function.structured_input_signature[1]
        _check_names(body, ["instances", "signature_name"])
        rows = _checked(body["instances"], sorted(specs))
        columns = {key: [_value(row, key) for row in rows] for key in specs}
        outputs = function(**{key: _tensor(columns[key], specs[key].dtype) for key in specs})
        lists = [outputs[name].numpy().tolist() for name in sorted(outputs)]
        return [dict(zip(sorted(outputs), row, strict=True)) for row in zip(*lists, strict=True)]

    async def answer(request):
        try:
            body = json.loads(await request.body())
            result, status = {"predictions": await run_in_threadpool(predict, body)}, 200
        except ERRORS as error:
            result, status = {"error": f"{type(error).__name__}: {error}"}, 400
        text = json.dumps(result, default=lambda value: value.decode(errors="replace"))
        return Response(text, status, media_type="application/json")

    return Starlette(routes=[Route(f"/v1/models/{name}:predict", answer, methods=["POST"])])


def _check_names(values, names):
    """Raise ValueError for a name without effect, such as an option of the search."""
    if unknown := sorted(set(values) - set(names)):
        raise ValueError(f"Names must be in {names}. Received: {', '.join(unknown)}.")


def _checked(rows, inputs):
    """Return the instances after checking their types.

    If the signature has several inputs, each instance must be an object.
    """
    if not isinstance(rows, list):
        raise ValueError(f"instances must be a list. Received: {rows!r}.")
    if len(inputs) > 1 and not all(map(_is_object, rows)):
        names = ", ".join(inputs)
        raise ValueError(f"Each instance must be an object with {names}. Received: {rows!r}.")
    for row in filter(_is_object, rows):
        _check_names(row, inputs)
    return rows


def _is_object(row):
    return isinstance(row, dict) and "b64" not in row


def _value(row, key):
    """Return the value of the input `key`. An instance is an object, or the value itself."""
    value = row[key] if _is_object(row) else row
    # Without `validate`, Python would skip characters that are not base64.
    return base64.b64decode(value["b64"], validate=True) if isinstance(value, dict) else value


def _tensor(values, dtype):
    """Return the values of an input as a tensor.

    If ids do not fit the dtype, NumPy raises an error.
    """
    if dtype.is_integer:
        np.array(values, dtype.as_numpy_dtype)  # tf.constant would drop the higher bits
    return tf.constant(values, dtype)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="folder that contains the versions of an export")
    parser.add_argument("name", help="name of the model in the address")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8501)
    args = parser.parse_args()
    uvicorn.run(make_app(args.folder, args.name), host=args.host, port=args.port)
