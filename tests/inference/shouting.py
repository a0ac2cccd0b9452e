"""A server of a function that shouts, in place of a model."""

import contextlib
import http.client
import json
import socket
import threading
import types

import numpy as np

from ut_keras.inference import local_server, served_export

LIMITS = types.SimpleNamespace(
    timeout_secs=1, max_request_bytes=600, max_text_bytes=40, max_texts=20, max_positions=1000
)


def upper(texts):
    """Stands for an export: beams of the text in capitals, and itself."""
    if b"wait" in texts:
        raise served_export.Refusal(504, "An answer takes more than 2 s.")
    outputs = np.array([[text.upper(), text] for text in texts], dtype=object)
    return {"outputs": outputs, "scores": np.array([[-0.25, -1.5]] * len(texts), np.float32)}


def limits(**changed):
    return types.SimpleNamespace(**{**vars(LIMITS), **changed})


@contextlib.contextmanager
def serving(answer=upper, **changed):
    """Context with "host:port" of a server of a function."""
    with local_server.listening("127.0.0.1", 0) as listener:
        server = local_server.server(local_server.App("shout", answer, limits(**changed)))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def post(address, body, path="/v1/models/shout:predict", headers=()):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", path, body, dict(headers))
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


def connected(address):
    host, _, port = address.partition(":")
    return socket.create_connection((host, int(port)), timeout=30)
