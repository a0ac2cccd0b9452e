"""ut-query-server: send texts to TensorFlow Serving and print the outputs.

    ut-query-server --server=localhost:8501 --servable_name=ende --inputs_once="Two dogs play."
    ut-query-server --server=localhost:8501 --servable_name=ende       reads typed lines

The command uses the REST API. docs/serving.md describes how to serve a model.
"""

import concurrent.futures
import contextlib
import http.client
import json
import sys
import threading
import urllib.parse
from collections.abc import Sequence
from typing import Any

from ut_keras.bin import command, command_line, flags
from ut_keras.errors import UsageError
from ut_keras.files import json_file

_MAX_RESPONSE_BYTES = 2**23  # parsing can need 30 times as much memory as the response has bytes


def main(argv: Sequence[str] | None = None) -> int:
    """Run ut-query-server and return the exit code."""
    return command.run_with_flags(_main, flags.QUERY_SERVER, "ut-query-server", __doc__, argv)


def _main(args: command.Args) -> None:
    command_line.require(
        args, "server", "servable_name", what="such as --server=localhost:8501 --servable_name=ende"
    )
    if args.inputs_once is not None:
        _request(args, args.inputs_once)
        return
    for line in command.typed_lines(">> "):
        try:
            _request(args, line)
        except UsageError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)


def predict(
    server: str, servable_name: str, texts: Sequence[str], timeout_secs: float = 10
) -> list[dict[str, Any]]:
    """Send texts to the REST API of TensorFlow Serving and return the predictions.

    Args:
        server: str, "host:port" or "http://host:port".
        servable_name: str. Name of the served model.
        texts: list of str.
        timeout_secs: float. Maximum seconds for the complete request, including the DNS lookup.

    Returns:
        list with one dict {"outputs": list of str, "scores": list of float} for each text.

    Raises:
        UsageError: if no response arrives in time, if the response is an error, or if it has no
            valid predictions for the texts.
    """
    if any(text.encode("utf-8", "replace").decode() != text for text in (servable_name, *texts)):
        raise UsageError("Text must be UTF-8. Received: other bytes.")
    path = f"/v1/models/{urllib.parse.quote(servable_name, safe='')}:predict"
    body = json.dumps({"instances": texts}).encode()
    status, content = _send_request(server, path, body, timeout_secs)
    if status == http.HTTPStatus.NOT_FOUND:
        raise UsageError(
            f"{server} has no model of this name, or another API. Check --servable_name. Received: "
            f"status {status} for {path}: {_shown(content)}."
        )
    try:
        response = json_file.parse(content)
        if "predictions" in response:
            rows = [_prediction(row) for row in response["predictions"]]
            if len(rows) != len(texts):
                raise ValueError("another number of predictions")
            return rows
        reason = str(response["error"])
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise UsageError(
            f"The response of {server} must be JSON with predictions, at most "
            f"{_MAX_RESPONSE_BYTES} bytes. Received: status {status}, {_shown(content)}."
        ) from error
    raise UsageError(f"{server} rejected the request, status {status}: {reason[:500]}")


def _send_request(server, path, body, timeout_secs):
    """Send a POST request, and return the status and the body of the response."""
    address = server.removeprefix("http://").removesuffix("/")
    if "/" in address:
        raise UsageError(
            "--server must be host:port of an HTTP server, without https:// or a path. "
            f"Received: {server!r}."
        )
    try:
        return _with_timeout(timeout_secs, _post, address, path, body, timeout_secs)
    except (OSError, OverflowError, ValueError, http.client.HTTPException) as error:
        raise UsageError(
            f"--server must be the REST API of a server. Received: {server!r}, "
            f"{type(error).__name__} {error}."
        ) from error


def _shown(content):
    """Return the beginning of a response for an error message."""
    return repr(content[:200].decode(errors="replace"))


def _prediction(row):
    """Return the checked prediction for one text."""
    outputs, scores = row["outputs"], [float(score) for score in row["scores"]]
    is_one = isinstance(outputs, list) and all(isinstance(text, str) for text in outputs)
    if not is_one or not 0 < len(outputs) == len(scores):
        raise TypeError("no texts with their scores")
    return {"outputs": outputs, "scores": scores}


def _post(address, path, body, timeout_secs):
    """Return the status of the response, and at most _MAX_RESPONSE_BYTES of its body."""
    connection = http.client.HTTPConnection(address, timeout=timeout_secs)
    # For any other port number, the socket would use the remainder modulo 65536.
    if not 1 <= connection.port <= 65535:
        raise OverflowError("port must be from 1 to 65535")
    with contextlib.closing(connection):
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            return response.status, response.read(_MAX_RESPONSE_BYTES)


def _with_timeout(seconds, function, *arguments):
    """Call a function in a thread and return its result, or raise TimeoutError.

    A timeout of the socket would not limit the time for a DNS lookup, or for a server that sends
    single bytes. If the call takes too long, its thread is abandoned.
    """
    pending: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run():
        try:
            pending.set_result(function(*arguments))
        except BaseException as error:  # `pending.result` raises this exception again
            pending.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return pending.result(seconds)
    except TimeoutError:
        raise TimeoutError(f"no response within {seconds:g} s") from None


def _request(args, text):
    [response] = predict(args.server, args.servable_name, [text], args.timeout_secs)
    scores = ",".join(f"{score:.3f}" for score in response["scores"])
    outputs = "\n".join(response["outputs"])
    title = f"Score {scores}" if len(response["scores"]) == 1 else f"Scores [{scores}]"
    print(f"\nInput:\n{text}\n\nOutput ({title}):\n{outputs}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
