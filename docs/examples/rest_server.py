"""Serve an export over HTTP in the form of TensorFlow Serving's REST API.

python docs/examples/rest_server.py served/reverse reverse --port=8501
curl -d '{"instances": ["3 1 4 1 5"]}' http://localhost:8501/v1/models/reverse:predict
curl http://localhost:8501/v1/models/reverse
"""

import argparse
import base64
import json
import os
import socket
import sys
from reprlib import repr as shortened

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    if __name__ != "__main__":
        raise
    sys.exit(
        f"error: rest_server.py requires uvicorn and starlette. Received: {error}. "
        "In your clone of ut_keras, run: pip install -e '.[serve]'."
    )

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  this import registers the operations of subword models

ERRORS = (ValueError, TypeError, OverflowError, RecursionError, tf.errors.OpError)


def make_app(folder, name):
    """Return the application that serves a folder, such as served/reverse."""
    version = newest_version(folder)
    model = tf.saved_model.load(version)

    def predict(body):
        function = _signature(body, model.signatures)
        specs = function.structured_input_signature[1]
        rows = _checked(body["instances"], sorted(specs))
        columns = {key: [_value(row, key) for row in rows] for key in specs}
        outputs = function(**{key: _tensor(columns[key], key, specs[key].dtype) for key in specs})
        lists = [outputs[name].numpy().tolist() for name in sorted(outputs)]
        if len(lists) == 1:  # TensorFlow Serving omits the name of a single output
            return lists[0]
        return [dict(zip(sorted(outputs), row, strict=True)) for row in zip(*lists, strict=True)]

    async def answer(request):
        try:
            body = json.loads(await request.body())
            result, status = {"predictions": await run_in_threadpool(predict, body)}, 200
        except ERRORS as error:
            result, status = {"error": f"{type(error).__name__}: {error}"}, 400
        text = json.dumps(result, default=lambda value: value.decode(errors="replace"))
        return Response(text, status, media_type="application/json")

    async def status(request):
        state = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        entry = {"version": os.path.basename(os.path.abspath(version)), **state}
        text = json.dumps({"model_version_status": [entry]})
        return Response(text, media_type="application/json")

    async def other(request, error):
        received = f"{request.method} {request.url.path[:200]}"
        path = f"/v1/models/{name}"
        reason = f"The request must be POST {path}:predict or GET {path}. Received: {received}."
        text = json.dumps({"error": reason})
        return Response(text, error.status_code, error.headers, media_type="application/json")

    return Starlette(
        routes=[
            Route(f"/v1/models/{name}", status),
            Route(f"/v1/models/{name}:predict", answer, methods=["POST"]),
        ],
        exception_handlers={HTTPException: other},  # other addresses and methods
    )


def newest_version(folder):
    """Return the subfolder with the highest version number.

    If the folder itself is an export, return this folder.
    """
    if os.path.exists(os.path.join(folder, "saved_model.pb")):
        return folder
    versions = list(filter(str.isdigit, os.listdir(folder))) if os.path.isdir(folder) else []
    if not versions:
        raise ValueError(
            "folder must contain an export of ut-exporter, such as served/reverse/1790000000. "
            f"Received: {folder!r}."
        )
    return os.path.join(folder, max(versions, key=int))


def _signature(body, signatures):
    """Check the names in a request, and return the signature's function."""
    names = ["instances", "signature_name"]
    if not isinstance(body, dict):
        raise ValueError(
            f"The request must be an object with instances. Received: {shortened(body)}."
        )
    _check_names(body, names)
    if "instances" not in body:
        raise ValueError('instances must be in the request, as in {"instances": ["a text"]}.')
    name = body.get("signature_name", "serving_default")
    if not isinstance(name, str) or name not in signatures:
        raise ValueError(
            f"signature_name must be in {sorted(signatures)}. Received: {shortened(name)}."
        )
    return signatures[name]


def _check_names(values, names):
    """Raise ValueError for a name that is not in `names`, such as beam_size."""
    if unknown := sorted(set(values) - set(names)):
        raise ValueError(f"Names must be in {names}. Received: {', '.join(unknown)}.")


def _checked(rows, inputs):
    """Check the types of the instances, and return the instances.

    If the signature has several inputs, each instance must be an object.
    """
    if not isinstance(rows, list):
        raise ValueError(f"instances must be a list. Received: {shortened(rows)}.")
    names = ", ".join(inputs)
    if len(inputs) > 1 and not all(map(_is_object, rows)):
        raise ValueError(
            f"Each instance must be an object with {names}. Received: {shortened(rows)}."
        )
    for row in filter(_is_object, rows):
        _check_names(row, inputs)
        if set(row) != set(inputs):
            raise ValueError(f"Each object must have {names}. Received: {shortened(row)}.")
    return rows


def _is_object(row):
    return isinstance(row, dict) and "b64" not in row


def _value(row, key):
    """Return the value of the input `key` of an instance.

    An instance is an object of values, or a single value.
    """
    value = row[key] if _is_object(row) else row
    if not isinstance(value, dict):
        return value
    if set(value) != {"b64"} or not isinstance(value["b64"], str):
        raise ValueError(f'{key} must be a value or {{"b64": "…"}}. Received: {shortened(value)}.')
    # Without `validate`, Python would skip characters that are not base64.
    return base64.b64decode(value["b64"], validate=True)


def _tensor(values, key, dtype):
    """Return the values of an input as a tensor of texts [B] or ids [B, S].

    If ids do not fit the dtype, NumPy raises an error.
    """
    if dtype == tf.string:
        for value in values:
            if not isinstance(value, str | bytes):
                raise ValueError(f"{key} must be texts. Received: {shortened(value)}.")
        return tf.constant(values, dtype)
    for value in values:
        if not isinstance(value, list) or any(type(number) is not int for number in value):
            raise ValueError(f"{key} must be lists of ids. Received: {shortened(value)}.")
    if len({len(value) for value in values}) > 1:
        raise ValueError(f"{key} must be lists of one length. Fill shorter lists with 0.")
    array = np.array(values, dtype.as_numpy_dtype)  # tf.constant would drop the higher bits
    return tf.constant(array.reshape(len(values), len(values[0]) if values else 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="folder that contains the versions of an export")
    parser.add_argument("name", help="name of the model in the address")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8501, help="0: any unused port")
    args = parser.parse_args()
    family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            version = newest_version(args.folder)
            listener.bind((args.host, args.port))  # fails before the model is loaded
        except ValueError as error:
            parser.error(str(error))
        except (OSError, OverflowError) as error:
            parser.error(f"--host and --port must be an unused address. Received: {error}.")
        print(f"Loading {version}…", flush=True)
        app = make_app(args.folder, args.name)
        port = listener.getsockname()[1]  # the port of the listener, also for --port=0
        host = f"[{args.host}]" if ":" in args.host else args.host
        print(f"Serving on http://{host}:{port}/v1/models/{args.name}", flush=True)
        uvicorn.Server(uvicorn.Config(app)).run(sockets=[listener])
