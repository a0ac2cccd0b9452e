"""ut-query-server: asks a model that TensorFlow Serving serves.

    ut-query-server --server=localhost:8501 --servable_name=ende --inputs_once="Two dogs play."
    ut-query-server --server=localhost:8501 --servable_name=ende       asks what is typed

It speaks the REST API; docs/serving.md says how a model is served.
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

_MAX_RESPONSE_BYTES = 2**23  # of an answer; parsed it may take 30 times as much


@command.from_flags(flags.QUERY_SERVER, "ut-query-server", __doc__)
def main(args: command.Args) -> None:
    command_line.require(args, "server", "servable_name")
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
    """Asks the REST API.

    Args:
        server: str, "host:port" or "http://host:port".
        timeout_secs: float, for all of it, the look-up of the address included.
    Returns:
        for every text {"outputs": list of str, "scores": list of float}.
    Raises:
        UsageError: if there is no response, one that says no, or one that is none to the texts.
    """
    address = server.removeprefix("http://").removesuffix("/")
    if "/" in address:
        raise UsageError(
            "--server must be host:port of an HTTP server, without https:// or a path. "
            f"Received: {server!r}."
        )
    if any(text.encode("utf-8", "replace").decode() != text for text in (servable_name, *texts)):
        raise UsageError("Text must be UTF-8. Received: other bytes.")
    path = f"/v1/models/{urllib.parse.quote(servable_name, safe='')}:predict"
    body = json.dumps({"instances": texts}).encode()
    try:
        status, content = _with_timeout(timeout_secs, _post, address, path, body, timeout_secs)
    except (OSError, OverflowError, ValueError, http.client.HTTPException) as error:
        raise UsageError(
            f"--server must be the REST API of a server. Received: {server!r}, "
            f"{type(error).__name__} {error}."
        ) from error
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
            f"{_MAX_RESPONSE_BYTES} bytes. Received: status {status}, {content[:80]!r}."
        ) from error
    raise UsageError(f"{server} rejected the request, status {status}: {reason[:500]}")


def _prediction(row):
    outputs, scores = row["outputs"], [float(score) for score in row["scores"]]
    is_one = isinstance(outputs, list) and all(isinstance(text, str) for text in outputs)
    if not is_one or not 0 < len(outputs) == len(scores):
        raise TypeError("no texts with their scores")
    return {"outputs": outputs, "scores": scores}


def _post(address, path, body, timeout_secs):
    """(status, at most so many bytes of the answer)"""
    connection = http.client.HTTPConnection(address, timeout=timeout_secs)
    if not 1 <= connection.port <= 65535:  # which would be taken modulo 65536
        raise OverflowError("port must be from 1 to 65535")
    with contextlib.closing(connection):
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            return response.status, response.read(_MAX_RESPONSE_BYTES)


def _with_timeout(seconds, function, *arguments):
    """What a function returns, or TimeoutError: it waits for others, and for so long in all.

    It runs in a thread, which is left behind if it takes longer: nothing else ends, for instance,
    the look-up of an address, or a server that drips.
    """
    pending: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run():
        try:
            pending.set_result(function(*arguments))
        except BaseException as error:  # raised where it is waited for
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
