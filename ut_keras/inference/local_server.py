"""A small server of one export, for trying it on one's own machine; `ut-query-server --serve_dir`.

It answers what TensorFlow Serving answers to these, and nothing else:

    POST /v1/models/NAME:predict   {"instances": ["Two dogs play."]}
    GET  /v1/models/NAME

An ASGI app on uvicorn, which speaks HTTP. What a request may take is limited: its bytes, texts,
positions and seconds, and how many come at a time.
"""

import asyncio
import base64
import binascii
import json
import logging
import os
import socket
from collections.abc import Callable
from typing import Any

from ut_keras.errors import UsageError
from ut_keras.inference.served_export import Refusal

_CONNECTIONS = 256  # at a time
_RUNS = 2  # of the model at a time
_PADDED_TEXTS = 8  # of the longest size, that may be asked at once
_SIGNATURE = "serving_default"
_LOG = logging.getLogger(__name__)


def newest_export(directory: str) -> str:
    """The export that a folder is, or the newest of those in it, as ut-exporter numbers them.

    Raises:
        UsageError: if there is none.
    """
    numbers = []
    if os.path.isdir(directory):
        numbers = sorted((int(name), name) for name in os.listdir(directory) if name.isdecimal())
    for folder in (directory, *(os.path.join(directory, name) for _, name in reversed(numbers))):
        if os.path.isfile(os.path.join(folder, "saved_model.pb")):
            return folder
    raise UsageError(
        "--serve_dir must be an export, a folder with saved_model.pb, or one with exports. "
        f"Received: {directory!r}."
    )


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        UsageError: if there is no such address, or it is not free.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if not 0 <= port <= 65535:
            raise OverflowError("port must be from 0 to 65535")
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(
            f"--host and --port must be free to listen on. Received: {host}:{port}, {error}."
        ) from error


def server(app: "App") -> Any:
    """The `uvicorn.Server` of an `App`."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    timeout_secs = app.limits.timeout_secs

    class OneRequest(H11Protocol):
        """A connection: it has an end, however slowly a client writes or reads."""

        def connection_made(self, transport):
            super().connection_made(transport)
            self._end = self.loop.call_later(3 * timeout_secs, transport.abort)
            # Those above the limit that ask something are told so; what remains asks nothing.
            if len(self.connections) > 2 * _CONNECTIONS:
                transport.abort()

        def connection_lost(self, error):
            self._end.cancel()
            super().connection_lost(error)

        def eof_received(self):
            # A client that says no more may still listen: to what is wrong, if that was not all.
            if self.cycle is None:
                return False
            self.cycle.more_body = False
            self.cycle.message_event.set()
            return True

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=OneRequest,
            ws="none",
            lifespan="off",
            interface="asgi3",
            loop="asyncio",
            workers=1,
            proxy_headers=False,
            server_header=False,
            access_log=False,  # What is asked for is nobody's business.
            log_config=None,
            log_level="warning",
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=timeout_secs,
        )
    )


class App:
    """The ASGI app.

    Args:
        name: str, of the model.
        export: function (list of bytes) -> dict from name to array [B, beams]; may raise `Refusal`.
        limits: with timeout_secs, max_request_bytes, max_text_bytes, max_texts.
    """

    def __init__(
        self, name: str, export: Callable[[list[bytes]], dict[str, Any]], limits: Any
    ) -> None:
        self.name = name
        self.limits = limits
        self._export = export
        self._free = asyncio.Semaphore(_RUNS)

    async def __call__(self, scope, receive, send):
        try:
            status, content = 200, await self._answer(scope, receive)
        except Refusal as refusal:
            status, content = refusal.status, {"error": str(refusal)}
            if status >= 500:
                _LOG.error("%d: %s", status, refusal)
        body = json.dumps(content).encode()
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
        }
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope, receive):
        asked, model = (scope["method"], scope["path"]), f"/v1/models/{self.name}"
        if asked == ("GET", model):
            return {"model_version_status": [{"version": "1", "state": "AVAILABLE"}]}
        if asked != ("POST", f"{model}:predict"):
            raise Refusal(404, "There is no such model.")
        texts = read_texts(await self._body(scope, receive), self.limits)
        found = await self._found(texts) if texts else {}
        rows = {name: array.tolist() for name, array in found.items()}
        return {
            "predictions": [
                {name: [_readable(value) for value in of_all[i]] for name, of_all in rows.items()}
                for i in range(len(texts))
            ]
        }

    async def _body(self, scope, receive):
        most, seconds = self.limits.max_request_bytes, self.limits.timeout_secs
        body, size, is_more = b"", 0, True
        try:
            async with asyncio.timeout(seconds):
                # To the end, even of what is too much and not kept: a client that still writes
                # does not listen.
                while is_more:
                    message = await receive()
                    part, is_more = message.get("body", b""), message.get("more_body", False)
                    size += len(part)
                    body += part if size <= most else b""
        except TimeoutError:
            raise Refusal(408, f"A request must come within {seconds} s.") from None
        if size > most:
            raise Refusal(413, f"A request must have at most {most} bytes.")
        length = dict(scope["headers"]).get(b"content-length", b"none").decode()
        if length != str(size):
            raise Refusal(
                400, f"A body must have its Content-Length. Received: {length}, {size} bytes."
            )
        return body

    async def _found(self, texts):
        try:
            async with asyncio.timeout(self.limits.timeout_secs):
                await self._free.acquire()
        except TimeoutError:
            raise Refusal(503, "The server is busy.") from None
        try:
            return await asyncio.to_thread(self._export, texts)
        finally:
            self._free.release()


def read_texts(body: bytes, limits: Any) -> list[bytes]:
    """The texts of a request.

    Args:
        body: bytes of {"instances": [text, …]}; a text is a string, {"b64": "…"} or
            {"inputs": either}.
        limits: with max_texts, max_text_bytes.
    Returns:
        list of bytes.
    Raises:
        Refusal: if it is something else, or too much.
    """
    try:
        content = json.loads(body)
        if content.get("signature_name", _SIGNATURE) != _SIGNATURE:
            raise Refusal(400, f"This server has the signature {_SIGNATURE} only.")
        instances = content["instances"]
        if not isinstance(instances, list):
            raise TypeError(f"{type(instances).__name__} instead of a list")
        texts = [_text(instance) for instance in instances]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refusal(
            400, f'A request must be {{"instances": ["text", …]}}. Received: {error!r}.'[:200]
        ) from error
    if len(texts) > limits.max_texts:
        raise Refusal(
            413, f"A request must have at most {limits.max_texts} texts. Received: {len(texts)}."
        )
    longest = max(map(len, texts), default=0)
    most = limits.max_text_bytes
    if longest > most or longest * len(texts) > _PADDED_TEXTS * most:
        raise Refusal(
            413,
            f"A text must have at most {most} bytes, and all, if they were as long as the longest, "
            f"{_PADDED_TEXTS * most}.",
        )
    return texts


def _text(instance):
    if isinstance(instance, dict) and list(instance) == ["inputs"]:
        instance = instance["inputs"]
    if isinstance(instance, str):
        return instance.encode("utf-8", "replace")
    if isinstance(instance, dict) and list(instance) == ["b64"]:
        try:
            return base64.b64decode(instance["b64"], validate=True)
        except binascii.Error as error:
            raise ValueError(str(error)) from error
    raise TypeError(f"{type(instance).__name__} instead of a text")


def _readable(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
