"""A small server of one export, for trying it on one's own machine; `ut-query-server --serve_dir`.

It answers what TensorFlow Serving answers to these, and nothing else:

    POST /v1/models/NAME:predict   {"instances": ["Two dogs play."]}
    GET  /v1/models/NAME

What a request may take is limited: its bytes, those of a text, seconds, how many at a time. A
search that takes too long is stopped.
"""

import base64
import binascii
import contextlib
import http.server
import json
import os
import socket
import threading

from ut_keras import file_error
from ut_keras.bin import command
from ut_keras.bin.flags import UsageError

_CONNECTIONS = 16  # at a time
_RUNS = 2  # of the model at a time
_PADDED_TEXTS = 8  # of the longest size, that may be asked at once
_SIGNATURE = "serving_default"
_OUTPUTS = ("outputs", "scores")


class Refusal(Exception):
    """A request that is not answered: HTTP status and reason."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


def run(args):
    """Serves until Ctrl-C.

    Args:
        args: flags of ut-query-server.
    """
    if not args.host:
        raise UsageError("--host must be an address to listen on. Received: ''.")
    if not os.path.isfile(os.path.join(args.serve_dir, "saved_model.pb")):
        raise UsageError(
            "--serve_dir must be an export, a folder with saved_model.pb. "
            f"Received: {args.serve_dir!r}."
        )
    # Bound before anything is loaded: a port of 0 takes a free one.
    with Server((args.host, args.port), args.servable_name or "model", None, args) as server:
        command.load_tensorflow()
        server.export = Export(args.serve_dir, args.timeout_secs)
        host, port = server.server_address[:2]
        where = f"http://{host}:{port}/v1/models/{server.name}"
        print(f"Serving {args.serve_dir} at {where}", flush=True)
        server.serve_forever()


class Export:
    """A SavedModel, run as a server runs it: in a session, with a deadline.

    Args:
        directory: str.
        timeout_secs: int.
    Raises:
        UsageError: if it cannot be loaded, or is none of ours.
    """

    def __init__(self, directory, timeout_secs):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  its operations

        self._tf = tf
        self._options = tf.compat.v1.RunOptions(timeout_in_ms=1000 * timeout_secs)
        # Operations of a search are too small to gain by more threads, see decoding.side_by_side.
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        signature = self._load(directory)
        self._input = signature.inputs["inputs"].name
        self._outputs = {name: signature.outputs[name].name for name in _OUTPUTS}
        self._free = threading.Semaphore(_RUNS)
        self._timeout_secs = timeout_secs

    def _load(self, directory):
        """Loads it into the session; returns its signature."""
        logger = self._tf.get_logger()
        level = logger.level
        logger.setLevel("ERROR")  # It warns that the function is of TensorFlow 1.
        try:
            with self._session.graph.as_default():
                loaded = self._tf.compat.v1.saved_model.load(self._session, ["serve"], directory)
        except Exception as error:  # whatever TensorFlow makes of a damaged one
            raise UsageError(
                "--serve_dir must be an export that can be loaded. Received: "
                f"{directory!r}: {file_error.line(error)}"
            ) from error
        finally:
            logger.setLevel(level)
        signature = loaded.signature_def.get(_SIGNATURE)
        if signature is None or not _is_ours(signature, self._tf.string.as_datatype_enum):
            names = ", ".join(sorted(loaded.signature_def)) or "none"
            raise UsageError(
                "--serve_dir must be an export of ut-exporter: texts as inputs, outputs and scores "
                f"by the signature {_SIGNATURE}. Received: {directory!r}, signatures: {names}."
            )
        return signature

    def __call__(self, texts):
        """Answers for a list of bytes: dict from the name of an output to its array.

        Raises:
            Refusal: if it takes too long.
        """
        if not self._free.acquire(timeout=self._timeout_secs):
            raise Refusal(503, "The server is busy.")
        try:
            feed = {self._input: texts}
            return self._session.run(self._outputs, feed, options=self._options)
        except self._tf.errors.DeadlineExceededError:
            raise Refusal(504, f"An answer takes more than {self._timeout_secs} s.") from None
        except self._tf.errors.OpError as error:
            raise Refusal(500, f"{type(error).__name__} in the model.") from error
        finally:
            self._free.release()


def _is_ours(signature, string):
    inputs, outputs = signature.inputs, signature.outputs
    return (
        set(inputs) == {"inputs"}
        and inputs["inputs"].dtype == string
        and len(inputs["inputs"].tensor_shape.dim) == 1
        and set(outputs) >= set(_OUTPUTS)
        and outputs["outputs"].dtype == string
    )


class Server(http.server.ThreadingHTTPServer):
    """Serves an `Export`.

    Args:
        address: (host, port).
        name: str, of the model.
        export: function (list of bytes) -> dict from name to array [B, beams]; None if it is still
            to be set, before anything is served.
        limits: with timeout_secs, max_request_bytes, max_text_bytes.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address, name, export, limits):
        self.name = name
        self.export = export
        self.limits = limits
        self._free = threading.Semaphore(_CONNECTIONS)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        try:
            super().__init__(address, _Handler)
        except (OSError, OverflowError, UnicodeError) as error:
            raise UsageError(
                f"--host and --port must be free to listen on. Received: {address[0]}:{address[1]},"
                f" {error}."
            ) from error

    def process_request(self, request, client_address):
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address):
        # However slowly a client writes or reads, it has an end.
        limit = threading.Timer(3 * self.limits.timeout_secs, _hang_up, [request])
        limit.daemon = True
        limit.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._free.release()

    def handle_error(self, request, client_address):
        """A client that has gone is nothing to tell about."""


def _hang_up(request):
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(http.server.BaseHTTPRequestHandler):
    server_version = "ut-query-server"
    sys_version = ""

    def setup(self):
        self.timeout = self.server.limits.timeout_secs
        super().setup()

    def do_GET(self):
        if self.path != f"/v1/models/{self.server.name}":
            return self._answer(404, {"error": "There is no such model."})
        state = {"version": "1", "state": "AVAILABLE"}
        return self._answer(200, {"model_version_status": [state]})

    def do_POST(self):
        try:
            self._answer(200, {"predictions": self._predictions()})
        except Refusal as refusal:
            self._answer(refusal.status, {"error": str(refusal)})

    def log_message(self, *arguments):
        """What is asked for is nobody's business."""

    def _predictions(self):
        if self.path != f"/v1/models/{self.server.name}:predict":
            raise Refusal(404, "There is no such model.")
        texts = read_texts(self._body(), self.server.limits.max_text_bytes)
        if not texts:
            return []
        found = {name: array.tolist() for name, array in self.server.export(texts).items()}
        return [
            {name: [_readable(value) for value in rows[i]] for name, rows in found.items()}
            for i in range(len(texts))
        ]

    def _body(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise Refusal(411, "A request must say its Content-Length.")
        most = self.server.limits.max_request_bytes
        if len(length) > 12 or int(length) > most:
            raise Refusal(413, f"A request must have at most {most} bytes.")
        return self.rfile.read(int(length))

    def _answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def read_texts(body, max_text_bytes):
    """The texts of a request.

    Args:
        body: bytes of {"instances": [text, …]}; a text is a string, {"b64": "…"} or
            {"inputs": either}.
        max_text_bytes: int.
    Returns:
        list of bytes.
    Raises:
        Refusal: if it is something else, or too much.
    """
    try:
        content = json.loads(body)
        if content.get("signature_name", _SIGNATURE) != _SIGNATURE:
            raise Refusal(400, f"This server has the signature {_SIGNATURE} only.")
        texts = [_text(instance) for instance in content["instances"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refusal(
            400, f'A request must be {{"instances": ["text", …]}}. Received: {error!r}.'[:200]
        ) from error
    longest = max(map(len, texts), default=0)
    if longest > max_text_bytes or longest * len(texts) > _PADDED_TEXTS * max_text_bytes:
        raise Refusal(
            413,
            f"A text must have at most {max_text_bytes} bytes, and all, if they were as long as "
            f"the longest, {_PADDED_TEXTS * max_text_bytes}.",
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
